#include "ebb/io/archive/npz.hpp"

#include <cstring>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "tests/io/archive/zip_bytes.hpp"
#include "tests/io/folder.hpp"
#include "tests/memory_refusals.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::Member;
using test::zip_of;

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

std::string npy_bytes(const Tensor& t) {
  return npy_preamble(t.spec()) +
         std::string(reinterpret_cast<const char*>(t.raw()), t.spec().bytes());
}

class NpzTest : public test::InFolder {
 protected:
  std::string refused(const std::string& content) {
    put("a.npz", content);
    return error_of([&] {
      NpzReader npz(path("a.npz"));
      for (const std::string& name : npz.names()) (void)npz.load(name);
    });
  }
};

TEST_F(NpzTest, RoundTrips) {
  const Tensor x = Tensor::arange(12, DType::f32).viewed({3, 4}),
               y = Tensor::of<std::int64_t>({5, 6});
  save_npz(path("a.npz"), {{"x", x}, {"empty", Tensor::zeros({0, 2})}, {"y", y}});
  NpzReader npz(path("a.npz"));
  EXPECT_EQ(npz.names(), (std::vector<std::string>{"x", "empty", "y"}));
  EXPECT_TRUE(same(npz.load("x"), x));
  EXPECT_TRUE(same(npz.load("y"), y));
  EXPECT_EQ(npz.spec("empty").shape, (Shape{0, 2}));
  EXPECT_HAS(error_of([&] { npz.load("z"); }),
             "it has no array \"z\"; it has \"x\", \"empty\", \"y\"");
  const auto rows = npz.rows("x");
  ASSERT_TRUE(rows);
  std::vector<float> read(12);
  File::open(path("a.npz")).read_at(rows->offset, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, x.to_vector<float>());
  EXPECT_HAS(error_of([&] {
               save_npz(path("b"), {{"x", x}, {"x", x}});
             }),
             "two arrays are called \"x\"");
  save_npz(path("none.npz"), {});
  EXPECT_TRUE(NpzReader(path("none.npz")).names().empty());
}

TEST_F(NpzTest, DeflatedAndZip64AreRead) {
  const Tensor x = Tensor::zeros({100, 100});
  for (const bool large : {false, true})
    for (const bool deflated : {false, true}) {
      put("a.npz", zip_of({{"x.npy", npy_bytes(x), deflated}}, large));
      NpzReader npz(path("a.npz"));
      EXPECT_TRUE(same(npz.load("x"), x)) << large << deflated;
      EXPECT_EQ(npz.rows("x").has_value(), !deflated);
    }
  put("a.npz", zip_of({{"x.npy", npy_bytes(x), true}}) + "");
  const std::string commented = zip_of({{"x.npy", npy_bytes(x), true}}, false, "a comment");
  put("a.npz", commented);
  EXPECT_TRUE(same(NpzReader(path("a.npz")).load("x"), x));
}

TEST_F(NpzTest, LiesAreRefusedBeforeMemoryIsTaken) {
  const std::string x = npy_bytes(Tensor::of({1, 2, 3}));
  EXPECT_HAS(refused(""), "0 bytes are too few for a zip archive");
  EXPECT_HAS(refused(std::string(100, 'x')), "no zip directory at its end");
  EXPECT_HAS(refused(zip_of({{"x.txt", x}})), "\"x.txt\" is no .npy array");
  EXPECT_HAS(refused(zip_of({{"x.npy", x}, {"x.npy", x}})), "two members \"x.npy\"");
  Member m{"x.npy", x, true};
  m.claimed = std::uint64_t{1} << 40;
  const auto live = ledger::total().live;
  ledger::reset_peak();
  EXPECT_HAS(refused(zip_of({m}, true)), "claims 1099511627776 bytes, packed in");
  m = {"x.npy", npy_preamble({{std::int64_t{1} << 50}, DType::u8}), true};
  EXPECT_HAS(refused(zip_of({m})), "u8(1125899906842624) needs a file of");
  m = {"x.npy", x};
  m.offset_shift = 1;
  EXPECT_HAS(refused(zip_of({m})), "does not begin where it should");
  m.offset_shift = 1'000'000;
  EXPECT_HAS(refused(zip_of({m})), "claims to lie outside of it");
  m = {"x.npy", x};
  m.method = 12;
  EXPECT_HAS(refused(zip_of({m})), "packed by method 12");
  m = {"x.npy", x};
  m.flags = 1;
  EXPECT_HAS(refused(zip_of({m})), "is encrypted");
  m = {"x.npy", x};
  m.checksum_flip = 1;
  EXPECT_HAS(refused(zip_of({m})), "the checksum of its member \"x.npy\"");
  m = {"x.npy", x, true};
  m.claimed = x.size() - 1;
  EXPECT_HAS(refused(zip_of({m})), "needs a file of");
  m.claimed = x.size() + 1;
  EXPECT_HAS(refused(zip_of({m})), "needs a file of");
  Member twin{"y.npy", x};
  twin.offset_shift = -static_cast<std::int64_t>(x.size() + 35);
  EXPECT_HAS(refused(zip_of({{"x.npy", x}, twin})), "lie on one another");
  EXPECT_LT(ledger::total().peak - live, 400'000u);
}

TEST_F(NpzTest, AFailedSaveLeavesWhatWasThere) {
  save_npz(path("a.npz"), {{"x", Tensor::of({1})}});
  EXPECT_HAS(error_of([&] {
               save_npz(path("a.npz"), {{"x", Tensor::zeros({1}, DType::bf16)}});
             }),
             "cannot save");
  EXPECT_EQ(NpzReader(path("a.npz")).load("x").item<float>(), 1);
  test::memory_refusals(30, [&] { (void)NpzReader(path("a.npz")).load("x"); });
}

}  // namespace
}  // namespace ebb
