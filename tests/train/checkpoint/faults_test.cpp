// Every file call and every allocation fails in turn, once or from then on: the last good checkpoint is intact, one
// clear error says what happened, and a program that loads is as it was.
#include "ebb/base/memory/memory_faults.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using file_faults::Call;
using file_faults::Fault;
using file_faults::Repeat;
using test::Bytes;
using test::Tiny;

class Faults : public test::FolderTest {
 protected:
  // `act` fails at every point; `holds` is what is true after each failure.
  std::size_t at_every_point(Fault fault, Repeat repeat, auto act, auto holds) {
    std::size_t failures = 0;
    for (int call = 0; call < file_faults::kCalls; ++call)
      for (std::uint64_t nth = 1;; ++nth, ++failures) {
        file_faults::fail(static_cast<Call>(call), nth, fault, repeat);
        const std::uint64_t before = file_faults::count(static_cast<Call>(call));
        std::string error;
        try {
          act();
        } catch (const FileError& e) {
          error = e.what();
        }
        const bool met = file_faults::count(static_cast<Call>(call)) >= before + nth;
        file_faults::clear();
        if (!met) break;
        EXPECT_EQ(error.find('\n'), error.npos) << error;
        if (!error.empty() && fault == Fault::enospc) {
          EXPECT_NE(error.find("No space left"), std::string::npos) << error;
        }
        holds(!error.empty());
      }
    return failures;
  }
};

TEST_F(Faults, ASaveThatFailsLeavesTheLastGoodOne) {
  Tiny tiny;
  std::int64_t step = 0, good = 0;
  std::map<std::int64_t, Bytes> written;
  const auto save = [&] {
    Checkpoints all(folder_,
                    {.keep_last = 2});  // also the lock, and what earlier failures have left
    tiny.set(++step);
    written[step] = tiny.all();
    all.save({.step = step}, tiny.weight, tiny);
    good = step;
  };
  save();
  save();
  const auto holds = [&](bool) {
    const Checkpoints all(folder_);
    const auto last = all.latest();
    ASSERT_TRUE(last);
    EXPECT_TRUE(last->info.step == good || last->info.step == step) << last->info.step;
    good = last->info.step;
    Tiny found;
    train::load(last->path, found.weight, found);
    EXPECT_EQ(found.all(), written[good]);
    save();  // nothing is in its way, and what was left over is removed
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3) << "left behind";
  };
  std::size_t failures = 0;
  for (const Fault fault : {Fault::enospc, Fault::eio})
    for (const Repeat repeat : {Repeat::once, Repeat::from_then_on})
      failures += at_every_point(fault, repeat, save, holds);
  EXPECT_GT(failures, 100u);
  for (std::uint64_t nth = 1;; ++nth) {
    const memory::FailTake fail(nth);
    const std::int64_t before = good;
    try {
      save();
    } catch (const OutOfMemory&) {
    }
    if (good > before) break;
    holds(true);
  }
}

// A step that is there already is replaced, be it with the old one still in its place.
TEST_F(Faults, ReplacingLeavesOneOfTheTwo) {
  Tiny tiny;
  tiny.set(1);
  std::vector<Bytes> valid{tiny.all()};
  const std::string path = folder_ + "/run";
  train::save(path, tiny.weight, tiny);
  std::int64_t n = 1;
  const auto failures = at_every_point(
      Fault::enospc, Repeat::once,
      [&] {
        tiny.set(++n);
        valid.push_back(tiny.all());
        train::save(path, tiny.weight, tiny);
        valid = {tiny.all()};
      },
      [&](bool) {
        Tiny found;
        train::load(path, found.weight, found);
        EXPECT_TRUE(std::find(valid.begin(), valid.end(), found.all()) != valid.end());
        valid = {found.all()};
      });
  EXPECT_GT(failures, 15u);
  train::save(path, tiny.weight, tiny);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "left behind";
}

TEST_F(Faults, ReplacingWhereNamesCannotChangePlaces) {
  Tiny tiny, found;
  const std::string path = folder_ + "/run";
  tiny.set(1);
  train::save(path, tiny.weight, tiny);
  tiny.set(2);
  file_faults::fail(Call::rename, 1, Fault::unsupported);
  train::save(path, tiny.weight, tiny);
  train::load(path, found.weight, found);
  EXPECT_EQ(found.all(), tiny.all());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "left behind";
}

TEST_F(Faults, ALoadThatFailsChangesNothing) {
  nn::Dense first(nn::Init(1) / "up", 700, 1000), second(nn::Init(2) / "up", 700, 1000);
  // More lies in memory than may be set aside there.
  optim::Adam adam(params(first)), other(params(second));
  for (const auto& part : {params(first), adam.state(), params(second), other.state()})
    for (const Variable& v : part) v.value();
  std::vector<Variable> vs = params(second);
  for (const Variable& v : other.state()) vs.push_back(v);
  const std::string path = folder_ + "/run";
  train::save(path, first, adam);
  const auto before = test::bytes(vs);
  const auto act = [&] {
    train::load(path, second, other);
    file_faults::clear();
    EXPECT_NE(test::bytes(vs), before);
    for (std::size_t i = 0; i < vs.size(); ++i) vs[i].write(before[i], 0);
  };
  const auto holds = [&](bool) { EXPECT_EQ(test::bytes(vs), before); };
  EXPECT_GT(at_every_point(Fault::eio, Repeat::once, act, holds), 20u);
  for (std::uint64_t nth = 1;; ++nth) {
    const memory::FailTake fail(nth);
    try {
      act();
      break;
    } catch (const OutOfMemory&) {
    }
    holds(true);
  }
}

TEST_F(Faults, ShortCountsAreContinued) {
  Tiny tiny, found;
  tiny.set(4);
  file_faults::fail_write(1, Fault::short_count, Repeat::from_then_on);
  file_faults::fail_read(1, Fault::short_count, Repeat::from_then_on);
  train::save(folder_ + "/run", tiny.weight, tiny);
  train::load(folder_ + "/run", found.weight, found);
  EXPECT_EQ(found.all(), tiny.all());
}

}  // namespace
}  // namespace ebb::train
