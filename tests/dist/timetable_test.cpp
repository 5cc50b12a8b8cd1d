// Timetables are what ranks do: letter by letter, vote by vote.
#include "ebb/dist/timetable.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "ebb/dist/simulate.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/dist/shared_training.hpp"
#include "tests/error_of.hpp"

namespace ebb::dist {
namespace {

using Entry = Timetable::Entry;
using Kind = Entry::Kind;

// A rank that hands all on, and notes what was asked of it.
class Listening final : public Ranks {
 public:
  explicit Listening(World& world) : world_(world) { forget(); }
  Timetable heard;
  void forget() {
    heard.rank = world_.rank();
    heard.size = world_.size();
    heard.entries.clear();
  }

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  std::unique_ptr<Letter> letter_to(int rank, int tag, std::span<const std::byte> bytes) override {
    return noted(world_.letter_to(rank, tag, bytes), {true, rank, tag, bytes.size()});
  }
  std::unique_ptr<Letter> letter_from(int rank, int tag, std::span<std::byte> bytes) override {
    return noted(world_.letter_from(rank, tag, bytes), {false, rank, tag, bytes.size()});
  }
  void together(const char* what, const std::exception_ptr& failed) override {
    heard.entries.push_back({Kind::vote, 0, -1, what});
    world_.together(what, failed);
  }
  bool agree(bool yes) override { return world_.agree(yes); }
  std::vector<std::string> gather(std::string_view mine) override { return world_.gather(mine); }
  void check_same(std::string_view name, std::string_view print) override {
    world_.check_same(name, print);
  }
  void step_begins() override { world_.step_begins(); }
  void set_step(std::int64_t step) override { world_.set_step(step); }

 private:
  class Noted final : public Letter {
   public:
    Noted(Timetable& heard, std::unique_ptr<Letter> letter, int number)
        : heard_(heard), letter_(std::move(letter)), number_(number) {}
    void start() override {
      heard_.entries.push_back({Kind::start, 0, number_, ""});
      letter_->start();
    }
    void wait() override {
      heard_.entries.push_back({Kind::wait, 0, number_, ""});
      letter_->wait();
    }

   private:
    Timetable& heard_;
    std::unique_ptr<Letter> letter_;
    int number_;
  };
  std::unique_ptr<Letter> noted(std::unique_ptr<Letter> letter, const Timetable::Letter& of) {
    heard.letters.push_back(of);
    return std::make_unique<Noted>(heard, std::move(letter),
                                   static_cast<int>(heard.letters.size()) - 1);
  }
  World& world_;
};

Timetable without_computing(Timetable t) {
  std::erase_if(t.entries, [](const Entry& e) { return e.kind == Kind::compute; });
  return t;
}

struct Case {
  const char* kind;
  int ranks;
  std::int64_t micro_batch = 0;
};

// Trains on ranks that are threads: 2 batches of 20 rows and one of 3, of which some ranks have none. f is given each
// rank's plan and what it did in the step, without computing.
template <class F>
void listen(const Case& c, const F& f) {
  FakeNetwork network(c.ranks, {.seed = 5, .delay_seconds = 1e-4});
  std::mutex lock;
  test::expect_none(test::in_worlds(network, c.ranks, [&](World& world) {
    Listening listening(world);
    std::optional<test::SharedTraining> training;
    {
      const std::lock_guard one(lock);
      training.emplace(c.kind, world, 43);
    }
    training->options.world = &listening;
    training->options.micro_batch = c.micro_batch;
    auto step = training->compiled();
    for (const Batch& b : training->own.epochs(1)) {
      listening.forget();
      step(b);
      const std::lock_guard one(lock);
      f(step.plan(), listening.heard);
    }
    world.barrier();
  }));
}

TEST(Timetables, AreWhatRanksDo) {
  for (const Case& c : {Case{"mlp", 2},
                        {"mlp", 3, 2},
                        {"mlp", 5},
                        {"cnn", 3},
                        {"tied-lm", 3},
                        {"gpt", 2, 3},
                        {"embeddings", 4}}) {
    SCOPED_TRACE(
        fmt::format("{} on {} ranks, micro-batches of {}", c.kind, c.ranks, c.micro_batch));
    int steps = 0, letters = 0;
    listen(c, [&](const plan::Plan& plan, const Timetable& heard) {
      const Timetable table = timetable(plan, heard.rank, heard.size);
      EXPECT_EQ(to_string(without_computing(table)), to_string(heard)) << heard.rank;
      ++steps;
      letters += static_cast<int>(table.letters.size());
    });
    EXPECT_EQ(steps, 3 * c.ranks);
    EXPECT_GT(letters, 5 * c.ranks);
  }
}

// A rank that waits for a sum of one call does not wait for those of another, which may come much later.
TEST(Timetables, HaveALetterForEachCallAtLeast) {
  for (const char* kind : {"gpt", "mlp", "llama"}) {
    listen({kind, 2}, [&](const plan::Plan& plan, const Timetable& heard) {
      if (heard.rank != 0) return;
      std::set<std::size_t> calls;
      for (const plan::RankSums::Sum& s : plan.rank_sums.sums) calls.insert(s.call);
      std::size_t handed_on = 0;
      for (const Timetable::Letter& l : timetable(plan, 0, 2).letters) handed_on += l.sent;
      EXPECT_GE(handed_on, calls.size()) << kind;
      if (std::string(kind) == "mlp") return;  // no call makes two
      EXPECT_LT(handed_on, plan.rank_sums.sums.size()) << "but sums of one call go together";
    });
  }
}

// What one rank sends, another receives; nobody waits for ever; what is computed is what the plan says.
TEST(Timetables, OfAllRanksComeToAnEnd) {
  for (const Case& c : {Case{"mlp", 4}, {"tied-lm", 3}, {"gpt", 3, 2}}) {
    std::map<int, plan::Plan> plans;
    listen(c, [&](const plan::Plan& plan, const Timetable& heard) {
      plans.try_emplace(heard.rank, plan);
    });
    std::vector<const plan::Plan*> each;
    for (const auto& [rank, plan] : plans) each.push_back(&plan);
    const std::vector<Timetable> all = timetables(each, 20, c.ranks);
    const Simulated step = simulate(all, {.between = {1e-4, 1e8}});
    for (int r = 0; r < c.ranks; ++r) {
      const plan::Plan& p = plans.at(r);
      double seconds = 0;
      for (const plan::Plan::Run& run : p.runs)
        seconds += p.programs[static_cast<std::size_t>(run.program)].schedule.seconds;
      const auto at = static_cast<std::size_t>(r);
      EXPECT_NEAR(all[at].computed(), seconds, 1e-9);
      EXPECT_NEAR(step.ranks[at].busy, seconds, 1e-9);
      EXPECT_EQ(step.ranks[at].sent, all[at].sent());
    }
  }
}

// A plan of one rank with as many rows does for others; a thousand of them, of which some have no rows.
TEST(Timetables, OfAThousandRanksAreMadeOnPaper) {
  const int kRanks = 1000;
  std::vector<plan::Plan> plans;
  for (const int rank : {0, kRanks - 1}) {
    PaperRank paper(rank, kRanks);
    dist::World alone;
    test::SharedTraining training("mlp", alone, 1500);
    training.options.world = &paper;
    const BatchSpec spec = programs::data_for("mlp", 1500, 3).batch(600).part(paper).spec();
    const auto step = compile(spec, training.options, [&](const Batch& b) {
      return training.adam.minimize(training.subject.loss(b));
    });
    plans.push_back(step.plan());
  }
  const std::vector<Timetable> all = timetables({&plans[0], &plans[1]}, 600, kRanks);
  EXPECT_GT(all[0].computed(), all[kRanks - 1].computed());
  const Simulated step = simulate(all, {.between = {5e-5, 1.25e9}});
  EXPECT_GT(step.seconds, (kRanks - 1) * 5e-5);
  EXPECT_GT(step.waiting(), 0.5);
  EXPECT_HAS(test::error_of([&] { timetables({&plans[0]}, 600, kRanks); }),
             "rank 600 of 1000 has 0 rows, and there is no plan for that");
}

TEST(Timetables, AreRead) {
  Timetable t;
  PaperRank paper(1, 3, &t);
  std::array<std::byte, 2048> room;
  const auto in = paper.letter_from(0, 7, room);
  const auto out = paper.letter_to(2, 7, room);
  in->start();
  in->wait();
  t.compute(1e-3);
  t.compute(0.5e-3);
  out->start();
  paper.together("the end", nullptr);
  EXPECT_EQ(to_string(t),
            "rank 1 of 3\n"
            "  start    from 0, tag 7, 2 KiB\n"
            "  wait     from 0, tag 7, 2 KiB\n"
            "  compute  1.500 ms\n"
            "  start    to 2, tag 7, 2 KiB\n"
            "  vote     the end\n");
  EXPECT_EQ(t.sent(), 2048u);
  EXPECT_DOUBLE_EQ(t.computed(), 1.5e-3);
  const Timetable same = t;
  EXPECT_EQ(same, t);
  t.compute(1);
  EXPECT_NE(same, t);
}

}  // namespace
}  // namespace ebb::dist
