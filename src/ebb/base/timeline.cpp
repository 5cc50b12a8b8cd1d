#include "ebb/base/timeline.hpp"

#include <algorithm>
#include <new>

#include "ebb/base/error.hpp"

namespace ebb::timeline {
namespace {

std::atomic<Track*> of_messages{nullptr};
std::atomic<bool> recording{false};
std::atomic<std::uint32_t> steps{0};

}  // namespace

Track::Track(std::size_t events, const char* site)
    : memory_(std::max<std::size_t>(1, events) * sizeof(Event), site, Category::workspace),
      capacity_(std::max<std::size_t>(1, events)) {
  // All of it, so that what it takes is taken now.
  for (std::size_t i = 0; i < capacity_; ++i) new (memory_.data() + i * sizeof(Event)) Event{};
}

void Track::add(const Event& event) {
  const std::lock_guard lock(lock_);
  Event& place = reinterpret_cast<Event*>(memory_.data())[added_ % capacity_];
  if (added_ >= capacity_) lost_until_ = std::max(lost_until_, place.end);
  place = event;
  ++added_;
}

std::span<Event> Track::events() {
  return {reinterpret_cast<Event*>(memory_.data()),
          static_cast<std::size_t>(std::min<std::uint64_t>(added_, capacity_))};
}

Recording::Recording(Options options)
    : work_(options.work, "timeline of the work"),
      messages_(options.messages, "timeline of messages") {
  if (recording.exchange(true))
    throw Error("timeline: this process is being recorded already; end that recording first");
  steps = 0;
  work_of_thread = &work_;
  of_messages = &messages_;
}

Recording::~Recording() { stop(); }

void Recording::stop() {
  if (of_messages.load() != &messages_) return;
  work_of_thread = nullptr;
  of_messages = nullptr;
  recording = false;
}

Track* messages() { return of_messages.load(std::memory_order_relaxed); }
std::uint32_t step() { return steps.load(std::memory_order_relaxed); }
void step_begins() {
  if (work()) steps.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ebb::timeline
