// Slices, marks and arrows as the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open: the Trace Event
// Format, an event a line.
//
//   report::ChromeEvents out([&](std::string_view text) { file.add(text); });
//   out.begin();
//   out.process(0, "rank 0 on a");
//   out.thread({0, 1}, "computing");
//   out.slice({0, 1}, {.name = "matmul", .begin = 1200, .end = 3400, .args = {{"scope", "up"}}});
//   out.end();
//
// A process is a group of tracks, a thread is a track. Slices of a track lie inside of each other or apart. Times are
// nanoseconds from any moment. Text goes to the sink in pieces; nothing is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::report {

struct TrackOf {
  int process = 0, thread = 0;
};

struct SliceOf {
  std::string_view name, category = "work";
  std::int64_t begin = 0, end = 0;
  // Names, and values as JSON.
  std::span<const std::pair<const char*, std::string>> args = {};
};

class ChromeEvents {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit ChromeEvents(Sink sink) : sink_(std::move(sink)) {}

  // The file's first and last bytes. What comes in between may be made by several: pieces without them.
  void begin(std::string_view about = "");  // JSON of an object: what else is to be said
  void end();

  void process(int process, std::string_view name);
  void thread(const TrackOf& track, std::string_view name);
  void slice(const TrackOf& track, const SliceOf& slice);
  // From the slice of one track that it lies in to that of another: two calls with the same number.
  void arrow(bool begins, std::uint64_t number, const TrackOf& track, std::int64_t at);

 private:
  void add(std::string_view event);

  Sink sink_;
  std::string text_;
};

}  // namespace ebb::report
