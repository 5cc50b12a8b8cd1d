#include "ebb/io/array/npy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

namespace fs = std::filesystem;

class NpyTest : public testing::Test {
 protected:
  NpyTest() {
    std::string name = (fs::temp_directory_path() / "ebb-npy-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/a.npy";
  }
  ~NpyTest() override {
    file_faults::clear();
    fs::remove_all(folder_);
  }
  Tensor load(const std::string& content) {
    fs::remove(path_);  // some file systems flush a file that is emptied and written again
    File::create(path_).write(content);
    return load_npy(path_);
  }
  std::string error_of(const std::string& content) {
    try {
      load(content);
    } catch (const FileError& e) {
      const std::string line = e.what();
      EXPECT_NE(line.find("\"" + path_ + "\""), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      return line;
    }
    ADD_FAILURE() << "no FileError for " << content.substr(0, 100);
    return "";
  }

  std::string folder_, path_;
};

// A file with this dict, padded and counted as the format asks, in front of `data`.
std::string file_with(std::string dict, const std::string& data, int version = 1) {
  const std::size_t front = version == 1 ? 10 : 12;
  while ((front + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  const std::size_t length = dict.size();
  for (std::size_t i = 0; i < front - 8; ++i) out += static_cast<char>(length >> (8 * i) & 0xff);
  return out + dict + data;
}
std::string dict_of(const std::string& descr, const std::string& shape,
                    const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

TEST_F(NpyTest, RoundTripsEveryTypeAndShape) {
  const unsigned seed = 3;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Shape shapes[] = {{},     {0},    {1},    {7},          {3, 4},
                          {0, 5}, {5, 0}, {1, 1}, {2, 3, 4, 5}, {1, 2, 1, 2, 1, 2, 1, 3}};
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    for (const Shape& shape : shapes) {
      Tensor t = Tensor::zeros(shape, dtype);
      for (std::size_t i = 0; i < t.spec().bytes(); ++i)
        t.bytes()[i] = static_cast<std::byte>(dtype == DType::boolean ? random() % 2 : random());
      save_npy(path_, t);
      EXPECT_TRUE(same(load_npy(path_), t)) << to_string(t.spec());
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// Written by hand from NumPy's description of the format.
TEST_F(NpyTest, WritesTheBytesThatNumPyWrites) {
  save_npy(path_, Tensor::of<float>({{1, 2, 3}, {4, 5, 6}}));
  std::string golden("\x93NUMPY\x01\x00\x76\x00", 10);
  golden += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  golden += std::string(58, ' ') + "\n";
  ASSERT_EQ(golden.size(), 128u);
  golden +=
      std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40", 24);
  EXPECT_EQ(read_file(path_), golden);

  save_npy(path_, Tensor::of<std::int64_t>({-2}));
  golden = std::string("\x93NUMPY\x01\x00\x76\x00", 10);
  golden +=
      "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }" + std::string(60, ' ') + "\n";
  golden += std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8);
  EXPECT_EQ(read_file(path_), golden);

  save_npy(path_, Tensor::scalar(1, DType::boolean));
  golden = std::string("\x93NUMPY\x01\x00\x76\x00", 10);
  golden +=
      "{'descr': '|b1', 'fortran_order': False, 'shape': (), }" + std::string(62, ' ') + "\n\x01";
  EXPECT_EQ(read_file(path_), golden);
}

// A dict just too long for one more step of padding gets the next one.
TEST_F(NpyTest, DataStartsAtAMultipleOf64) {
  for (std::int64_t first = 1; first < 1'000'000'000'000'000; first *= 10) {
    const Tensor t = Tensor::zeros({first, 0, 1, 1, 1, 1, 1, 1});
    save_npy(path_, t);
    EXPECT_EQ(fs::file_size(path_) % 64, 0u);
    EXPECT_EQ(load_npy(path_).spec(), t.spec());
  }
}

TEST_F(NpyTest, ReadsAllVersionsAndSpellings) {
  const std::string data("\x01\0\0\0\x02\0\0\0", 8);
  const Tensor expected = Tensor::of<std::int32_t>({1, 2});
  for (const int version : {1, 2, 3})
    EXPECT_TRUE(same(load(file_with(dict_of("<i4", "(2,)"), data, version)), expected));
  for (const char* dict : {
           "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (2,)}",
           "{'shape':(2,),'descr':'<i4','fortran_order':True}",
           "{ 'shape' : ( 2 , ) , 'descr' : '=i4' , 'fortran_order' : False , }",
       })
    EXPECT_TRUE(same(load(file_with(dict, data)), expected)) << dict;
  // No padding at all is within the format, if not within NumPy's habits.
  const std::string dict = dict_of("<i4", "(2,)") + "\n";
  EXPECT_TRUE(same(load(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size()) +
                        '\0' + dict + data),
                   expected));
}

TEST_F(NpyTest, ConvertsBigEndianAndFortranOrder) {
  EXPECT_TRUE(
      same(load(file_with(dict_of(">i4", "(2,)"), std::string("\0\0\0\x01\x01\x02\x03\x04", 8))),
           Tensor::of<std::int32_t>({1, 0x01020304})));
  EXPECT_TRUE(same(load(file_with(dict_of(">f8", "()"), std::string("\x3f\xf8\0\0\0\0\0\0", 8))),
                   Tensor::scalar(1.5, DType::f64)));
  EXPECT_TRUE(same(load(file_with(dict_of(">f2", "(1,)"), std::string("\x3c\x01", 2))),
                   Tensor::from<f16>(std::vector<f16>{f16{0x3c01}}, {1})));
  // A 2 by 3 by 2 array whose element [i, j, k] is 100 i + 10 j + k, first axis fastest.
  std::string columns;
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) columns += static_cast<char>(100 * i + 10 * j + k);
  EXPECT_TRUE(same(load(file_with(dict_of("|u1", "(2, 3, 2)", "True"), columns)),
                   Tensor::of<std::uint8_t>(
                       {{{0, 1}, {10, 11}, {20, 21}}, {{100, 101}, {110, 111}, {120, 121}}})));
  EXPECT_EQ(load(file_with(dict_of("|u1", "(2, 0, 2)", "True"), "")).shape(), (Shape{2, 0, 2}));
}

TEST_F(NpyTest, RefusesForeignTypesByName) {
  const struct {
    const char *descr, *why;
  } cases[] = {
      {"|O", "an object dtype (pickled)"},
      {"<c8", "a complex dtype"},
      {"<U5", "a string dtype"},
      {"|S3", "a byte string dtype"},
      {"<M8[ns]", "a date dtype"},
      {"<m8[ns]", "a time dtype"},
      {"|V2", "a raw or structured dtype"},
      {"<i2", "a signed integer of 2 bytes"},
      {"|i1", "a signed integer of 1 byte,"},
      {"<u8", "an unsigned integer of 8 bytes"},
      {"<f16", "a float of 16 bytes"},
      {"<f999999999", "unknown"},
      {"<f4x", "unknown"},
      {"<f", "unknown"},
      {"<", "unknown"},
      {"", "unknown"},
      {"<x4", "unknown"},
      {"<<f4", "unknown"},
      {"f4", "without a byte order"},
      {"|f4", "without a byte order"},
  };
  for (const auto& c : cases) {
    const std::string line = error_of(file_with(dict_of(c.descr, "(1,)"), "abcd"));
    EXPECT_HAS(line, "the dtype \"" + std::string(c.descr) + "\" is " + c.why);
    EXPECT_HAS(line, "save it as float16, float32");
  }
  EXPECT_HAS(error_of(file_with("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, "
                                "'shape': (1,), }",
                                "abcdefgh")),
             "a structured dtype, which Ebb does not read; save each field");
}

TEST_F(NpyTest, RefusesHostileHeaders) {
  const struct {
    std::string dict;
    const char* why;
  } cases[] = {
      {"", "malformed at byte"},
      {"{}", "has no \"descr\""},
      {"{'descr': '<f4', 'shape': (1,)}", "has no \"fortran_order\""},
      {"{'descr': '<f4', 'fortran_order': False}", "has no \"shape\""},
      {dict_of("<f4", "(1,)").insert(1, "'descr': '<f4', "), "names \"descr\" twice"},
      {dict_of("<f4", "(1,)").insert(1, "'more': 1, "), "unknown key \"more\""},
      {dict_of("<f4", "(1)"), "expected ',' after the only size"},
      {dict_of("<f4", "1"), "expected '('"},
      {dict_of("<f4", "(-1,)"), "expected a size"},
      {dict_of("<f4", "(,)"), "expected a size"},
      {dict_of("<f4", "(1,,2)"), "expected a size"},
      {dict_of("<f4", "(1 2)"), "expected ',' or ')'"},
      {dict_of("<f4", "(01,)"), "without leading zeros"},
      {dict_of("<f4", "(1.0,)"), "expected ',' or ')'"},
      {dict_of("<f4", "(1,"), "expected a size"},
      {dict_of("<f4", "(1,1,1,1,1,1,1,1,1)"), "more than 8 axes"},
      {dict_of("<f4", "(99999999999999999999999999,)"), "too large to be addressed"},
      {dict_of("<f4", "(4294967296, 4294967296)"), "more elements than can be addressed"},
      {dict_of("<f4", "(4294967296, 4294967296, 0)"), "more elements than can be addressed"},
      {dict_of("<f4", "(1,)", "0"), "expected True or False"},
      {dict_of("<f4", "(1,)", "Falsehood"), "expected ','"},
      {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }",
       "the dtype \"<f4, \" is unknown"},
      {"{'descr: }", "expected a key"},
      {"{descr: '<f4'}", "expected a key"},
      {"{'descr' '<f4'}", "expected ':'"},
      {"{'desc\\x72': '<f4'}", "expected a key"},
      {dict_of("<f4", "(1,)") + "{}", "a newline that ends the header"},
      {dict_of("<f4", "(1,)") + "\n", "a newline that ends the header"},
      {std::string("{\0}", 3), "found \"?}"},
      {std::string(5000, '('), "malformed"},
  };
  for (const auto& c : cases) EXPECT_HAS(error_of(file_with(c.dict, "abcd")), c.why);
}

TEST_F(NpyTest, RefusesFilesOfTheWrongSize) {
  const std::string whole = file_with(dict_of("<f4", "(3,)"), std::string(12, '\0'));
  ASSERT_EQ(load(whole).shape(), Shape{3});
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::string line = error_of(whole.substr(0, n));
    EXPECT_HAS(line, n < 10 ? "too few for an .npy file" : "the file is cut short");
  }
  EXPECT_HAS(error_of(whole + "x"), "f32(3) needs a file of 140 bytes, and this one has 141");
  EXPECT_HAS(error_of(whole + "x"), "followed by something else");
  EXPECT_HAS(error_of("PK\x03\x04 a zip, as .npz files are"),
             "does not start as an .npy file does");
  std::string version = whole;
  version[6] = 4;
  EXPECT_HAS(error_of(version), "format version 4.0; expected 1.0, 2.0 or 3.0");
  version[6] = 1;
  version[7] = 1;
  EXPECT_HAS(error_of(version), "format version 1.1");
  std::string longest("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  EXPECT_HAS(error_of(longest + "{}"), "claims 4294967295 bytes, and 2 are left");
  EXPECT_HAS(error_of(file_with(dict_of("<f4", "(0,)") + std::string(70'000, ' '), "", 2)),
             "at most 65535 are read");
}

TEST_F(NpyTest, AHugeClaimTakesNoMemory) {
  const auto before = ledger::total().peak;
  EXPECT_HAS(error_of(file_with(dict_of("<f8", "(1000000, 1000000)"), "abcd")), "is cut short");
  EXPECT_LT(ledger::total().peak, before + 100'000);
}

TEST_F(NpyTest, RefusesBoolsThatAreNone) {
  EXPECT_HAS(error_of(file_with(dict_of("|b1", "(4,)"), std::string("\0\x01\x02\x01", 4))),
             "element 2 of its bools is 2; expected 0 or 1");
}

TEST_F(NpyTest, RefusesWhatCannotBeSaved) {
  try {
    save_npy(path_, Tensor::zeros({2}, DType::bf16));
    FAIL();
  } catch (const Error& e) {
    EXPECT_HAS(std::string(e.what()), "bf16 is a type NumPy does not have; cast it to f32 first");
  }
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_THROW(save_npy(path_, Tensor()), Error);
  EXPECT_THROW(load_npy(folder_ + "/none.npy"), FileError);
}

TEST_F(NpyTest, AFailedSaveLeavesTheOldFile) {
  using file_faults::Call;
  using file_faults::Fault;
  using file_faults::Repeat;
  const Tensor old = Tensor::of<float>({1, 2, 3});
  save_npy(path_, old);
  const Tensor next = Tensor::zeros({100'000});
  const auto before = file_faults::count(Call::write);
  save_npy(folder_ + "/count.npy", next);
  const auto writes = file_faults::count(Call::write) - before;
  fs::remove(folder_ + "/count.npy");
  ASSERT_GE(writes, 2u);
  for (std::uint64_t n = 1; n <= writes; ++n) {
    for (const Fault fault : {Fault::enospc, Fault::eio}) {
      for (const Repeat repeat : {Repeat::once, Repeat::from_then_on}) {
        file_faults::Guard guard;
        file_faults::fail_write(n, fault, repeat);
        EXPECT_THROW(save_npy(path_, next), FileError) << n;
        file_faults::clear();
        EXPECT_TRUE(same(load_npy(path_), old)) << n;
        EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
      }
    }
  }
  file_faults::fail_write(1, Fault::short_count, Repeat::from_then_on);
  file_faults::fail_read(1, Fault::short_count, Repeat::from_then_on);
  save_npy(path_, next);
  EXPECT_TRUE(same(load_npy(path_), next));
}

TEST_F(NpyTest, RunningOutOfMemoryIsCleanAtEveryStep) {
  File::create(path_).write(file_with(dict_of("<f4", "(2, 2)", "True"), std::string(16, '\x01')));
  const auto live = ledger::total().live;
  int failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    memory::FailTake fault(n);
    try {
      load_npy(path_);
      break;
    } catch (const OutOfMemory&) {
      ++failures;
    }
    EXPECT_EQ(ledger::total().live, live);
  }
  EXPECT_EQ(failures, 3) << "header, tensor, and the buffer that is transposed";
}

// Whatever becomes of a file, reading it gives a tensor or an Error.
TEST_F(NpyTest, SurvivesMutations) {
  unsigned seed = 12345;
  if (const char* text = std::getenv("EBB_SEED")) seed = static_cast<unsigned>(std::atoi(text));
  SCOPED_TRACE("EBB_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string alphabet = "{}()[]'\":, \n0123456789<>|=fiubOVTrueFalsdhpnc_\\\x93\xff";
  const std::string seeds[] = {
      file_with(dict_of("<f4", "(2, 3)"), std::string(24, '\x07')),
      file_with(dict_of("|b1", "(3, 2)", "True"), std::string(6, '\x01'), 2),
      file_with(dict_of(">i8", "(2,)"), std::string(16, '\x02'), 3),
  };
  int read = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string content = seeds[random() % 3];
    for (unsigned edits = 1 + random() % 3; edits > 0 && !content.empty(); --edits) {
      const std::size_t place = random() % content.size();
      switch (random() % 6) {
        case 0:
          content[place] = static_cast<char>(random());
          break;
        case 1:
        case 2:
          content[place] = alphabet[random() % alphabet.size()];
          break;
        case 3:
          std::swap(content[place], content[random() % content.size()]);
          break;
        case 4:  // the length stays, so that the header is read to the end
          content.insert(place, 1, alphabet[random() % alphabet.size()]);
          content.erase(random() % content.size(), 1);
          break;
        case 5:
          content.resize(content.size() - random() % std::min<std::size_t>(content.size(), 9));
          break;
      }
    }
    try {
      const Tensor t = load(content);
      ASSERT_LE(t.spec().bytes(), content.size());
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100) << "mutations too harsh to test anything";
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace ebb
