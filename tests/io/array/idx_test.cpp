#include "ebb/io/array/idx.hpp"

#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::gzipped;

class IdxTest : public test::InFolder {};

const std::string kBytes(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);

TEST_F(IdxTest, PackedIsAsPlain) {
  const Tensor plain = load_idx(put("a", kBytes)), packed = load_idx(put("b.gz", gzipped(kBytes)));
  EXPECT_EQ(plain.spec(), packed.spec());
  EXPECT_EQ(plain.to_vector<std::uint8_t>(), packed.to_vector<std::uint8_t>());
  const std::string wide("\0\0\x0c\x01\0\0\0\x02\xff\xff\xff\xfe\0\0\1\0", 16);
  EXPECT_EQ(load_idx(put("c", gzipped(wide))).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-2, 256}));
  const std::string parts = gzipped(kBytes.substr(0, 7)) + gzipped(kBytes.substr(7));
  EXPECT_EQ(load_idx(put("d", parts)).to_vector<std::uint8_t>(), plain.to_vector<std::uint8_t>())
      << "several members are one file";
}

TEST_F(IdxTest, PackedOnesAreRefusedAsPlainOnes) {
  const auto load = [&](const std::string& content) {
    return error_of([&] { load_idx(put("a", content)); });
  };
  EXPECT_HAS(load(gzipped(kBytes.substr(0, 3))), "3 bytes are too few for an idx file");
  EXPECT_HAS(load(gzipped(kBytes.substr(0, 9))), "ends inside its header");
  EXPECT_HAS(load(gzipped(kBytes.substr(0, 17))), "it ends before the last element of u8(2, 3)");
  EXPECT_HAS(load(gzipped(kBytes + "x")), "u8(2, 3) is followed by something else");
  EXPECT_HAS(load(gzipped(kBytes) + "x"), "its packed data");
  std::string damaged = gzipped(kBytes);
  damaged[damaged.size() - 5] ^= 1;
  EXPECT_HAS(load(damaged), "its packed data is damaged") << "the checksum";
}

}  // namespace
}  // namespace ebb
