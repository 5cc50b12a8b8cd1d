// What several share and get done side by side: cores, a link, memory. All that is at work on one way goes at the
// same rate, which changes as others come and go; so one clock of work done tells when each is over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace ebb::dist {

class SharedWay {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // In turn: one after the other, in the order in which they came.
  explicit SharedWay(bool in_turn = false) : in_turn_(in_turn) {}

  std::size_t at_work() const { return work_.size(); }

  void add(double now, double work, int job) {
    go_on(now);
    if (in_turn_ && !work_.empty())
      line_.emplace_back(work, job);
    else
      work_.push({done_ + work, ++count_, job});
  }
  void set_rate(double now, double rate) {  // work a second, of each
    go_on(now);
    rate_ = rate;
  }
  // When the first of them is over, if nothing changes.
  double next() const {
    if (work_.empty()) return kNever;
    const double left = work_.top().done - done_;
    return left <= 0 ? since_ : rate_ > 0 ? since_ + left / rate_ : kNever;
  }
  int pop(double now) {  // that one, at its time
    const Job first = work_.top();
    work_.pop();
    done_ = std::max(done_, first.done);
    since_ = now;
    if (in_turn_ && !line_.empty()) {
      work_.push({done_ + line_.front().first, ++count_, line_.front().second});
      line_.pop_front();
    }
    return first.job;
  }

 private:
  struct Job {
    double done;          // on the clock of work
    std::uint64_t count;  // what came first goes first
    int job;
    bool operator<(const Job& other) const {  // the queue has its largest in front
      return std::pair(done, count) > std::pair(other.done, other.count);
    }
  };
  void go_on(double now) {
    if (!work_.empty()) done_ = std::min(done_ + (now - since_) * rate_, work_.top().done);
    since_ = now;
  }

  bool in_turn_;
  double rate_ = 0, since_ = 0, done_ = 0;
  std::uint64_t count_ = 0;
  std::priority_queue<Job> work_;
  std::deque<std::pair<double, int>> line_;
};

}  // namespace ebb::dist
