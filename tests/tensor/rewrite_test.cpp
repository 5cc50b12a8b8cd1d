// New values for several variables: whatever fails, all or none.
#include "ebb/tensor/rewrite.hpp"

#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"

namespace ebb {
namespace {

std::vector<std::byte> bytes(const Variable& v) {
  std::vector<std::byte> out(v.spec().bytes());
  v.read(out, 0);
  return out;
}

struct Trial {
  // In memory, small and large; without bytes yet; with a value that is held elsewhere, too.
  std::vector<Variable> all{{"small", Tensor::full({7}, 1, DType::f32)},
                            {"large", Tensor::full({900, 1000}, 2, DType::f32)},
                            {"later", Spec{{3, 5}, DType::f32}, zeros_initially()},
                            {"shared", Tensor::full({1000, 3}, 3, DType::f32)},
                            {"larger", Tensor::full({1000, 1000}, 4, DType::f32)}};
  Tensor held = all[3].value();
  std::vector<std::vector<std::byte>> now() const {
    std::vector<std::vector<std::byte>> out;
    for (const Variable& v : all) out.push_back(bytes(v));
    return out;
  }
  void rewrite() {
    const std::vector<std::byte> chunk(Rewrite::kChunk, std::byte{1});
    Rewrite next(all);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::uint64_t at = 0, end = all[i].spec().bytes(); at < end; at += chunk.size())
        next.write(i, std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), end - at)), at);
    next.commit();
  }
};

TEST(RewriteVariables, GivesAllTheirNewValuesInLittleMemory) {
  Trial t;
  const std::uint64_t live = ledger::total().live;
  ledger::reset_peak();
  t.rewrite();
  EXPECT_LT(ledger::total().peak, live + (1 << 20));
  for (const auto& v : t.now()) EXPECT_EQ(v, std::vector<std::byte>(v.size(), std::byte{1}));
  EXPECT_EQ(t.held.to_vector<float>(), std::vector<float>(3000, 3));
}

TEST(RewriteVariables, ChangesNothingWithoutCommit) {
  Trial t;
  const auto before = t.now();
  {
    Rewrite next(t.all);
    const std::vector<std::byte> some(12, std::byte{9});
    for (std::size_t i = 0; i < t.all.size(); ++i) next.write(i, some, 0);
    EXPECT_THROW(next.write(0, some, 20), Error);
  }
  EXPECT_EQ(t.now(), before);
  EXPECT_FALSE(t.all[2].in_memory());
}

TEST(RewriteVariables, LosesNothingWhateverFails) {
  using file_faults::Call;
  Trial t;
  const auto before = t.now();
  const auto expect_safe = [&](auto arm) {
    for (std::uint64_t nth = 1;; ++nth) {
      [[maybe_unused]] const auto armed = arm(nth);
      try {
        t.rewrite();
        return nth;
      } catch (const Error&) {
      }
      file_faults::clear();
      EXPECT_EQ(t.now(), before) << nth;
    }
  };
  const auto again = [&] {  // as it was
    file_faults::clear();
    t = Trial();
  };
  for (const Call call : {Call::open, Call::reserve, Call::write, Call::sync}) {
    EXPECT_GT(expect_safe([&](std::uint64_t nth) {
                file_faults::fail(call, nth, file_faults::Fault::eio);
                return 0;
              }),
              1u);
    again();
  }
  // Where there is no room for a second one it goes to the file, or nothing has changed.
  int thrown = 0, done = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    bool fired = false, failed = false;
    {
      const memory::FailTake armed(nth);
      try {
        t.rewrite();
      } catch (const Error&) {
        failed = true;
      }
      fired = armed.fired();
    }
    if (!fired) break;
    ++(failed ? thrown : done);
    if (failed) {
      EXPECT_EQ(t.now(), before) << nth;
    } else {
      for (const auto& v : t.now()) EXPECT_EQ(v, std::vector<std::byte>(v.size(), std::byte{1}));
    }
    again();
  }
  EXPECT_GT(thrown, 0);
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace ebb
