#include "ebb/dist/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ebb/base/error.hpp"

namespace ebb::dist {
namespace {

constexpr double kOwnPause = 1;     // without a turn: this rank itself was stopped
constexpr double kNewStep = 0.05;   // a new step is told sooner than the next beat is due
constexpr double kSlow = 20;        // times what a step is expected to take
constexpr double kSlowAtLeast = 5;  // seconds
constexpr double kDeadlock = 3;     // times that, where all wait
// A plain beat that comes in the first moment after an alert may have been sent before it. The launcher's next
// signal comes after 1 s.
constexpr double kInFlight = 0.1, kAnswer = 0.75, kAlert = 3;
constexpr double kGrace =
    3;  // for a rank that said it ends, and for the launcher; then the job is ended

}  // namespace

Watch::Watch(int rank, int size, Options options) : rank_(rank), size_(size), options_(options) {}

void Watch::expect(double seconds_per_step) {
  step_limit_ = seconds_per_step > 0 ? std::max(kSlow * seconds_per_step, kSlowAtLeast) : 0;
}

void Watch::pass_time(double now) {
  if (last_turn_ == 0) {
    last_heard_ = step_since_ = busy_since_ = last_turn_ = now;
    last_beat_ = now - options_.period_seconds;
  }
  if (const double pause = now - last_turn_; pause > kOwnPause) {
    for (double* since : {&last_heard_, &step_since_, &busy_since_}) *since += pause;
    last_stopped_ = now;
  }
  last_turn_ = now;
}

void Watch::heard(const Beat& beat, double now) {
  if (beat.magic != Beat{}.magic) return;
  last_heard_ = now;
  heard_step_ = beat.step;
  if (beat.sign == Sign::alerted || (alerted_ != 0 && now - alerted_ > kInFlight)) answered_ = now;
  if (beat.sign == Sign::ending && neighbour_ended_ == 0) neighbour_ended_ = now;
}

// A transport that fails here is silence, which is what is looked for.
void Watch::hear(Transport& transport, double now) {
  try {
    for (;;) {
      if (!receiving_)
        receiving_ = transport.receive({before(), Channel::watch, 0},
                                       std::as_writable_bytes(std::span(&incoming_, 1)));
      const auto bytes = transport.test(*receiving_);
      if (!bytes) return;
      receiving_.reset();
      if (*bytes == sizeof incoming_) heard(incoming_, now);
    }
  } catch (const Error&) {
    receiving_.reset();
  }
}

Watch::Sign Watch::sign_to_send(double now) const {
  if (ending_ || neighbour_ended_ != 0) return Sign::ending;
  return alerted_ != 0 && now - alerted_ < kAlert ? Sign::alerted : Sign::alive;
}

void Watch::beat(Transport& transport, double now) {
  try {
    if (sending_) {
      if (!transport.test(*sending_)) return;
      sending_.reset();
      if (outgoing_.sign == Sign::ending) told_ = true;
    }
    const Sign sign = sign_to_send(now);
    const double period = step() == outgoing_.step ? options_.period_seconds
                                                   : std::min(kNewStep, options_.period_seconds);
    if (sign == outgoing_.sign && now - last_beat_ < period) return;
    last_beat_ = now;
    outgoing_.sign = sign;
    outgoing_.step = step();
    sending_ =
        transport.send({after(), Channel::watch, 0}, std::as_bytes(std::span(&outgoing_, 1)));
  } catch (const Error&) {
    sending_.reset();
    if (ending_) told_ = true;  // there is nobody to tell
  }
}

std::optional<Watch::Finding> Watch::after_alert(double now) {
  if (alerted_ == 0 || now - alerted_ < kAnswer || now - alerted_ > kAlert) return {};
  const bool was_stopped = last_stopped_ > alerted_ - kOwnPause;
  if (answered_ > alerted_ - kOwnPause || neighbour_ended_ != 0 || was_stopped) return {};
  neighbour_ended_ = now;  // the launcher has this long
  return Finding{before(), heard_step_, "it has died or cannot be reached", false};
}

std::optional<Watch::Finding> Watch::silence(double now) const {
  if (neighbour_ended_ != 0)
    return now - neighbour_ended_ < kGrace
               ? std::nullopt
               : std::optional(Finding{before(), heard_step_, "", true});
  const double silent = now - last_heard_;
  if (silent < options_.limit_seconds) return {};
  return Finding{before(), heard_step_, fmt::format("no sign of life for {:.1f} s", silent), true};
}

std::optional<Watch::Finding> Watch::slowness(double now, bool waits) {
  if (step() != seen_step_) {
    seen_step_ = step();
    step_since_ = busy_since_ = now;
  }
  if (waits) busy_since_ = now;
  const double limit = step_limit_;
  if (limit == 0 || seen_step_ < 0) return {};
  if (now - busy_since_ > limit)
    return Finding{rank_, seen_step_,
                   fmt::format("busy with one step for {:.0f} s, where {:.3g} s were expected",
                               now - busy_since_, limit / kSlow),
                   true};
  if (rank_ == 0 && now - step_since_ > kDeadlock * limit)
    return Finding{rank_, seen_step_,
                   fmt::format("no step for {:.0f} s, and it waits for others", now - step_since_),
                   true};
  return {};
}

std::optional<Watch::Finding> Watch::judge(double now, bool waits) {
  if (auto found = after_alert(now)) return found;
  if (auto found = silence(now)) return found;
  return ending_ || neighbour_ended_ != 0 ? std::nullopt : slowness(now, waits);
}

std::optional<Watch::Finding> Watch::turn(Transport& transport, double now, bool waits,
                                          bool alert) {
  if (done_) return {};
  pass_time(now);
  if (alert) alerted_ = now;
  hear(transport, now);
  beat(transport, now);
  auto found = judge(now, waits);
  if (!found || !found->ends_job) return found;
  done_ = true;
  ending_ = true;  // who follows need not tell it again
  beat(transport, now);
  return found;
}

}  // namespace ebb::dist
