// Headers that lie: each is refused in one line, and takes no memory to speak of.
#include "ebb/io/array/safetensors.hpp"

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using test::error_of;

class SafetensorsTest : public test::InFolder {
 protected:
  Safetensors read(const std::string& header, const std::string& data) {
    std::string front(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) front[i] = static_cast<char>(header.size() >> 8 * i);
    File file = File::open(put("a.safetensors", front + header + data));
    return read_safetensors_front(file);
  }
  std::string refused(const std::string& header, const std::string& data = std::string(16, 'x')) {
    const std::string line = error_of([&] { read(header, data); });
    EXPECT_HAS(line, "cannot load \"" + path("a.safetensors") + "\": ");
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
};

std::string tensor(const std::string& name, const std::string& shape, const std::string& place,
                   const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + place + "]}";
}

TEST_F(SafetensorsTest, WhatItSaysIsFound) {
  const Safetensors file = read("{ \"__metadata__\" : {\"k\":\"v\"}," + tensor("b", "2", "8,16") +
                                    "," + tensor("a", "1,2", "0,8") + "}  ",
                                std::string(16, 'x'));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[1].spec, (Spec{{2}, DType::f32}));
  EXPECT_EQ(file.metadata.at("k"), "v");
  EXPECT_EQ(read("{}", "").tensors.size(), 0u);
}

TEST_F(SafetensorsTest, PlacesAndLengthsThatLieAreRefused) {
  const struct {
    std::string header, why;
  } kCases[] = {
      {tensor("a", "4", "0,12"), "\"a\" is f32(4) and lies at bytes 0 to 12 of 16"},
      {tensor("a", "4", "4,20"), "lies at bytes 4 to 20 of 16"},
      {tensor("a", "4", "16,0"), "lies at bytes 16 to 0 of 16"},
      {tensor("a", "2", "0,8"), "have 8 bytes and its data 16"},
      {tensor("a", "2", "8,16"), "\"a\" begins at byte 8 of the data, where 0 was expected"},
      {tensor("a", "2", "0,8") + "," + tensor("b", "2", "4,12"), "\"b\" begins at byte 4"},
      {tensor("a", "4", "0,16") + "," + tensor("b", "4", "0,16"), "\"b\" begins at byte 0"},
      {tensor("a", "4", "0"), "does not give tensor \"a\" a dtype, a shape and two offsets"},
      {tensor("a", "4", "0,16,16"), "a dtype, a shape and two offsets"},
      {tensor("a", "4294967296,4294967296,4294967296", "0,16"), ""},
      {tensor("a", "9999999999999999999", "0,16"), "a number beyond 2^62"},
      {tensor("a", "-4", "0,16"), "expected a whole number from 0 on"},
      {tensor("a", "4", "0,1e1"), "expected ']'"},
      {tensor("a", "4", "0,16", "F31"), "dtype \"F31\", which Ebb does not have"},
  };
  for (const auto& c : kCases) EXPECT_HAS(refused("{" + c.header + "}"), c.why);
  EXPECT_HAS(refused("{" + tensor("a", "4", "0,16")), "expected '}'");
  EXPECT_HAS(refused("{" + tensor("a", "4", "0,16") + "} {"), "expected the end");
}

TEST_F(SafetensorsTest, KeysThatAreThereTwiceAreRefused) {
  EXPECT_HAS(refused("{" + tensor("a", "4", "0,16") + "," + tensor("a", "0", "16,16") + "}"),
             "its header names \"a\" twice");
  EXPECT_HAS(refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":"
                     "[0,16]}}"),
             "\"dtype\" is there twice");
  EXPECT_HAS(refused("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", ""),
             "metadata has \"k\" twice");
  EXPECT_HAS(refused("{\"__metadata__\":{},\"__metadata__\":{}}", ""), "\"__metadata__\" twice");
}

// Names come from the file, and may hold anything.
TEST_F(SafetensorsTest, ErrorsAreOneLineWhateverTheNames) {
  EXPECT_HAS(refused("{" + tensor("a\\nb", "4", "0,12") + "}"), "tensor \"a\\u000ab\"");
  EXPECT_HAS(refused("{\"a\":{\"x\\ny\":1}}"), "\"x?y\" says nothing about a tensor");
  EXPECT_HAS(refused("{" + tensor("a", "4", "0,16", "F\\n") + "}"), "dtype \"F?\"");
  EXPECT_HAS(refused("{" + tensor("a\xff", "4", "0,16") + "}"), "not UTF-8");
  EXPECT_HAS(refused("{" + tensor(std::string("a\0", 2), "4", "0,16") + "}"), "NUL");
  EXPECT_HAS(refused("{" + tensor("a\\ud800", "4", "0,16") + "}"), "half a character");
}

TEST_F(SafetensorsTest, DepthIsRefusedAtOnce) {
  for (const char* open : {"[", "{", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 200'000; ++i) deep += open;
    (void)refused(deep);
    (void)refused("{\"a\":" + deep);
    (void)refused("{\"a\":{\"shape\":" + deep);
    (void)refused("{\"__metadata__\":" + deep);
  }
}

// A header of names alone, a hundred times what its budget holds.
TEST_F(SafetensorsTest, AHeaderBeyondTheBudgetIsRefused) {
  std::string header = "{";
  for (int i = 0; i < 60'000; ++i)
    header += (i ? "," : "") + tensor("t" + std::to_string(i), "0", "0,0");
  header += "}";
  EXPECT_EQ(read(header, "").tensors.size(), 60'000u);
  memory::set_limit(ledger::total().live + (1 << 20));
  const std::string line = error_of([&] { read(header, ""); });
  memory::set_limit(0);
  EXPECT_HAS(line, "safetensors header");
}

}  // namespace
}  // namespace ebb
