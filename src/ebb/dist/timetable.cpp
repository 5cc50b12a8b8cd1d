#include "ebb/dist/timetable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string_view>
#include <utility>

#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/exec/rank_chain.hpp"
#include "ebb/exec/shared_step.hpp"
#include "ebb/exec/sum_uses.hpp"

namespace ebb::dist {
namespace {

using Entry = Timetable::Entry;
using Kind = Entry::Kind;

class NotedLetter final : public Ranks::Letter {
 public:
  NotedLetter(Timetable* notes, const Timetable::Letter& letter) : notes_(notes) {
    if (!notes_) return;
    number_ = static_cast<int>(notes_->letters.size());
    notes_->letters.push_back(letter);
  }
  void start() override { note(Kind::start); }
  void wait() override { note(Kind::wait); }

 private:
  void note(Kind kind) {
    if (notes_) notes_->entries.push_back({kind, 0, number_, ""});
  }
  Timetable* notes_;
  int number_ = -1;
};

double seconds_of(const plan::Node& node, std::uint64_t scratch) {
  for (const plan::Tile& tile : node.tiles)
    if (tile.scratch == scratch && scratch != node.scratch) return tile.seconds;
  return node.seconds;
}

// The calls of a program in their order, with the sums that each goes on from and adds to.
class Calls {
 public:
  Calls(const plan::Program& program, double slower) : sums_(exec::sum_uses(program)) {
    double all = 0;
    for (const plan::Step& step : program.schedule.steps) {
      const bool runs = step.kind == plan::Step::Kind::run;
      seconds_.push_back(runs ? seconds_of(program.lowered.graph.nodes[step.node], step.scratch)
                              : 0);
      all += seconds_.back();
    }
    const double times = all > 0 ? slower * program.schedule.seconds / all : 0;
    for (double& s : seconds_) s *= times;
  }

  void note(Timetable& to, exec::RankChain* chain) const {
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
      if (chain)
        for (const plan::Id sum : sums_[i].takes) chain->take(static_cast<std::size_t>(sum));
      to.compute(seconds_[i]);
      if (chain)
        for (const plan::Id sum : sums_[i].gives) chain->give(static_cast<std::size_t>(sum));
    }
  }

 private:
  std::vector<exec::SumUses> sums_;
  std::vector<double> seconds_;  // per step
};

}  // namespace

bool Entry::operator==(const Entry& other) const {
  return kind == other.kind && seconds == other.seconds && letter == other.letter &&
         std::string_view(what) == other.what;
}

void Timetable::compute(double seconds) {
  if (seconds <= 0) return;
  if (entries.empty() || entries.back().kind != Kind::compute)
    entries.push_back({Kind::compute, 0, -1, ""});
  entries.back().seconds += seconds;
}

double Timetable::computed() const {
  double all = 0;
  for (const Entry& e : entries) all += e.seconds;
  return all;
}

std::uint64_t Timetable::sent() const {
  std::uint64_t all = 0;
  for (const Entry& e : entries)
    if (e.kind == Kind::start) {
      const Letter& l = letters[static_cast<std::size_t>(e.letter)];
      all += l.sent ? l.bytes : 0;
    }
  return all;
}

std::string to_string(const Timetable& table) {
  std::string out = fmt::format("rank {} of {}\n", table.rank, table.size);
  const auto to = std::back_inserter(out);
  for (const Entry& e : table.entries) {
    if (e.kind == Kind::compute) {
      fmt::format_to(to, "  compute  {:.3f} ms\n", e.seconds * 1e3);
    } else if (e.kind == Kind::vote) {
      fmt::format_to(to, "  vote     {}\n", e.what);
    } else {
      const Timetable::Letter& l = table.letters[static_cast<std::size_t>(e.letter)];
      fmt::format_to(to, "  {:<8} {} {}, tag {}, {}\n", e.kind == Kind::start ? "start" : "wait",
                     l.sent ? "to" : "from", l.peer, l.tag, ebb::to_string(ByteSize{l.bytes}));
    }
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const Timetable& table) {
  return out << to_string(table);
}

PaperRank::PaperRank(int rank, int size, Timetable* notes)
    : rank_(rank), size_(size), notes_(notes) {
  if (!notes) return;
  notes->rank = rank;
  notes->size = size;
}

std::unique_ptr<Ranks::Letter> PaperRank::letter_to(int rank, int tag,
                                                    std::span<const std::byte> bytes) {
  return std::make_unique<NotedLetter>(notes_, Timetable::Letter{true, rank, tag, bytes.size()});
}
std::unique_ptr<Ranks::Letter> PaperRank::letter_from(int rank, int tag,
                                                      std::span<std::byte> bytes) {
  return std::make_unique<NotedLetter>(notes_, Timetable::Letter{false, rank, tag, bytes.size()});
}

void PaperRank::together(const char* what, const std::exception_ptr& failed) {
  if (failed) std::rethrow_exception(failed);
  if (notes_ && size_ > 1) notes_->entries.push_back({Kind::vote, 0, -1, what});
}

bool PaperRank::agree(bool yes) {
  together("a vote", nullptr);
  return yes;
}

std::vector<std::string> PaperRank::gather(std::string_view mine) {
  return std::vector<std::string>(static_cast<std::size_t>(size_), std::string(mine));
}

Timetable timetable(const plan::Plan& plan, int rank, int size, double slower) {
  Timetable table;
  PaperRank paper(rank, size, &table);
  std::vector<Calls> programs;
  for (const plan::Program& p : plan.programs) programs.emplace_back(p, slower);
  const auto run = [&](exec::RankChain* chain, const plan::Plan::Run& r) {
    programs[static_cast<std::size_t>(r.program)].note(table, chain);
  };
  if (!plan.divided()) {
    for (const plan::Plan::Run& r : plan.runs) run(nullptr, r);
    return table;
  }
  // An arena that nobody touches: letters on paper know how long they are, and no more.
  auto* const arena = reinterpret_cast<std::byte*>(std::uintptr_t{plan::kPage});
  exec::RankChain chain(paper, plan, arena);
  together(&paper, exec::kStepBegins, [] {});
  exec::shared_step(paper, chain, plan.runs, [&](const plan::Plan::Run& r) {
    run(&r == &plan.runs.back() ? nullptr : &chain, r);
  });
  return table;
}

std::vector<Timetable> timetables(const std::vector<const plan::Plan*>& plans, std::int64_t rows,
                                  int size, double slower) {
  std::vector<Timetable> all;
  for (int rank = 0; rank < size; ++rank) {
    const std::int64_t own = data::Part{rank, size}.rows(rows);
    const auto of = std::find_if(plans.begin(), plans.end(), [&](const plan::Plan* p) {
      return p->part.rows(p->examples) == own;
    });
    if (of == plans.end())
      throw Error(fmt::format(
          "timetables: rank {} of {} has {} rows, and there is no plan for that", rank, size, own));
    all.push_back(timetable(**of, rank, size, slower));
  }
  return all;
}

}  // namespace ebb::dist
