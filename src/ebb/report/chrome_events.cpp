#include "ebb/report/chrome_events.hpp"

#include <fmt/format.h>

#include <iterator>

#include "ebb/base/quoted.hpp"

namespace ebb::report {
namespace {

// Microseconds, to the nanosecond.
std::string micro(std::int64_t nanoseconds) {
  const std::int64_t whole = nanoseconds / 1000, rest = nanoseconds % 1000;
  return nanoseconds < 0 ? fmt::format("-{}.{:03}", -whole, -rest)
                         : fmt::format("{}.{:03}", whole, rest);
}

}  // namespace

// Every event begins with a comma, but for a first one that says nothing.
void ChromeEvents::begin(std::string_view about) {
  sink_(
      fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n"
                  "{{\"ph\":\"M\",\"name\":\"trace_begin\",\"pid\":0}}",
                  about.empty() ? "{}" : about));
}

void ChromeEvents::end() { sink_("\n]}\n"); }

void ChromeEvents::add(std::string_view event) {
  text_.assign(",\n");
  text_ += event;
  sink_(text_);
}

void ChromeEvents::process(int process, std::string_view name) {
  add(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process,
                  quoted(std::string(name))));
  add(fmt::format(
      R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
      process));
}

void ChromeEvents::thread(const TrackOf& track, std::string_view name) {
  add(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                  track.process, track.thread, quoted(std::string(name))));
  add(fmt::format(
      R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      track.process, track.thread, track.thread));
}

void ChromeEvents::slice(const TrackOf& track, const SliceOf& slice) {
  std::string args;
  for (const auto& [name, value] : slice.args)
    args += fmt::format("{}{}:{}", args.empty() ? "" : ",", quoted(name), value);
  add(fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{},"args":{{{}}}}})",
      track.process, track.thread, micro(slice.begin), micro(slice.end - slice.begin),
      quoted(std::string(slice.name)), quoted(std::string(slice.category)), args));
}

void ChromeEvents::arrow(bool begins, std::uint64_t number, const TrackOf& track, std::int64_t at) {
  add(fmt::format(
      R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"id":{},"name":"message","cat":"message"{}}})",
      begins ? 's' : 'f', track.process, track.thread, micro(at), number,
      begins ? "" : R"(,"bp":"e")"));
}

}  // namespace ebb::report
