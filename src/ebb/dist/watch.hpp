// Who is alive: each rank sends a sign of life to the next one, every half second, and listens to the one
// before it. Whoever hears nothing for 5 s names that rank, and the job ends.
//
//   0 → 1 → 2 → 3 → 0
//
// A beat carries the step, so that it can be told where a lost rank was. A rank that was itself stopped for a
// while has missed what came, and does not count that time. A rank that ends for a reason that is told
// elsewhere, an exception, says so in a last beat; who follows it is silent then.
//
// A rank that dies is seen by the launcher first, which alerts all others before it ends them (alert.hpp). Each
// of these answers the alert by a beat, and whoever waits for one in vain has found the dead one.
//
// A rank that computes for ever still beats. Where the program has said how long a step takes, a rank that is
// busy with one for 20 times that names itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "ebb/base/messages/transport.hpp"

namespace ebb::dist {

struct WatchOptions {
  double period_seconds = 0.5;
  double limit_seconds = 5;
};

class Watch {
 public:
  using Options = WatchOptions;
  struct Finding {
    int rank = 0;
    std::int64_t step = -1;  // the last one that it told; -1: none
    std::string what;        // "no sign of life for 5.0 s"; "": that was told before
    bool ends_job = true;    // else the launcher is about to
  };

  Watch(int rank, int size, Options options = {});

  // By any thread.
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  void expect(double seconds_per_step);       // 0: however long
  void end() { ending_.store(true); }         // this rank ends, and tells why
  bool told() const { return told_.load(); }  // the next one has been sent that
  int before() const { return (rank_ + size_ - 1) % size_; }
  std::int64_t heard_step() const { return heard_step_.load(); }  // of the one before

  // By the post's thread, often. `waits`: the program waits for a message. `alert`: by the launcher, now.
  std::optional<Finding> turn(Transport& transport, double now, bool waits, bool alert);

 private:
  enum class Sign : std::uint32_t { alive = 1, alerted = 2, ending = 3 };
  struct Beat {
    std::uint32_t magic = 0x45424254;
    Sign sign = Sign::alive;
    std::int64_t step = -1;
  };

  void pass_time(double now);
  void hear(Transport& transport, double now);
  void heard(const Beat& beat, double now);
  void beat(Transport& transport, double now);
  Sign sign_to_send(double now) const;
  std::optional<Finding> judge(double now, bool waits);
  std::optional<Finding> after_alert(double now);
  std::optional<Finding> silence(double now) const;
  std::optional<Finding> slowness(double now, bool waits);
  int after() const { return (rank_ + 1) % size_; }

  const int rank_, size_;
  const Options options_;
  std::atomic<std::int64_t> step_{-1};
  std::atomic<double> step_limit_{0};
  std::atomic<bool> ending_{false}, told_{false};

  Beat incoming_, outgoing_;
  std::optional<Transport::Request> receiving_, sending_;
  // Moments; 0: not yet.
  double last_turn_ = 0, last_beat_ = 0, last_heard_ = 0, last_stopped_ = 0;
  double step_since_ = 0, busy_since_ = 0;
  double alerted_ = 0, answered_ = 0, neighbour_ended_ = 0;
  bool done_ = false;
  std::atomic<std::int64_t> heard_step_{-1};
  std::int64_t seen_step_ = -1;
};

}  // namespace ebb::dist
