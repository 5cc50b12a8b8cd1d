// What one rank does in a step that ranks share, as a value: how long it computes, which letters it starts and
// waits for, when it votes. Nothing runs and nothing is sent.
//
//   Timetable t = timetable(plan, 1, 4);        // of rank 1 of 4
//   std::cout << t;
//     compute  12.4 ms
//     wait     from 0, tag 0, 1.50 MiB
//     …
//
// It is made by what runs the step: exec::RankChain over ranks on paper, which note their letters in place of
// sending them. So whatever ranks come to tell each other, it is another list of letters here. dist/simulate.hpp
// says how long they take.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ebb/base/messages/ranks.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::dist {

struct Timetable {
  struct Letter {
    bool sent = false;  // else it is received
    int peer = 0, tag = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Letter&) const = default;
  };
  struct Entry {
    enum class Kind : std::uint8_t { compute, start, wait, vote } kind = Kind::compute;
    double seconds = 0;     // compute
    int letter = -1;        // start, wait: which of the letters
    const char* what = "";  // vote: on what; the words of whoever calls it, which last
    bool operator==(const Entry& other) const;
  };
  int rank = 0, size = 1;
  std::vector<Letter> letters;
  std::vector<Entry> entries;

  void compute(double seconds);  // after what is there: with computing that stands last, it is one
  double computed() const;       // seconds
  std::uint64_t sent() const;    // bytes
  bool operator==(const Timetable&) const = default;
};
std::string to_string(const Timetable& table);
std::ostream& operator<<(std::ostream& out, const Timetable& table);

// A rank of a job that is not there: all others agree to everything and have what it has. With `notes`, what it is
// told to do is written there.
class PaperRank final : public Ranks {
 public:
  PaperRank(int rank, int size, Timetable* notes = nullptr);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Letter> letter_to(int rank, int tag, std::span<const std::byte> bytes) override;
  std::unique_ptr<Letter> letter_from(int rank, int tag, std::span<std::byte> bytes) override;
  void together(const char* what, const std::exception_ptr& failed) override;
  bool agree(bool yes) override;
  std::vector<std::string> gather(std::string_view mine) override;
  void check_same(std::string_view, std::string_view) override {}
  void step_begins() override {}
  void set_step(std::int64_t) override {}

 private:
  int rank_, size_;
  Timetable* notes_;
};

// A step by this plan, which is of any rank with as many rows. The seconds are the plan's, times `slower`: transfers
// to the spill file that are not hidden are spread over the calls.
Timetable timetable(const plan::Plan& plan, int rank, int size, double slower = 1);

// The same of all ranks of a batch of so many rows: `plans` has one for each number of rows that a rank has.
std::vector<Timetable> timetables(const std::vector<const plan::Plan*>& plans, std::int64_t rows,
                                  int size, double slower = 1);

}  // namespace ebb::dist
