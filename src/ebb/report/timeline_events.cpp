#include "ebb/report/timeline_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "ebb/base/quoted.hpp"

namespace ebb::report {
namespace {

using timeline::Event;
using timeline::Kind;

constexpr int kComputing = 1, kReceived = 2, kMessages = 3;
constexpr std::int64_t kMark = 1000;  // nanoseconds

// By their beginning; what holds others before these.
std::span<Event> in_order(timeline::Track& track) {
  const std::span<Event> all = track.events();
  std::sort(all.begin(), all.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.begin, -a.end, a.kind) < std::tuple(b.begin, -b.end, b.kind);
  });
  const auto whole = std::partition_point(
      all.begin(), all.end(), [&](const Event& e) { return e.begin < track.lost_until(); });
  return all.subspan(static_cast<std::size_t>(whole - all.begin()));
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

const char* category(Kind kind) {
  constexpr const char* kNames[] = {"work", "step", "part", "call", "wait", "send", "receive"};
  return kNames[static_cast<int>(kind)];
}

class Writer {
 public:
  Writer(const RecordedBy& by, ChromeEvents& to) : by_(by), to_(to) {}

  void computing(std::span<const Event> events) {
    const TrackOf track{by_.rank, kComputing};
    to_.thread(track, "computing");
    for (const Event& e : events) {
      if (e.kind == Kind::call) {
        enter(e);
      } else if (e.kind != Kind::wait) {
        leave(0);
      }
      std::vector<std::pair<const char*, std::string>> args;
      if (e.kind == Kind::step) args.emplace_back("step", fmt::format("{}", e.step));
      if (e.peer >= 0) args.emplace_back("rank", fmt::format("{}", e.peer));
      if (e.bytes > 0) args.emplace_back("bytes", fmt::format("{}", e.bytes));
      if (e.scope != 0) args.emplace_back("scope", quoted(Scope::path(e.scope)));
      slice(track, e.name, e, args);
    }
    leave(0);
  }

  void messages(std::span<Event> events) {
    const auto receives = std::partition(events.begin(), events.end(),
                                         [](const Event& e) { return e.kind == Kind::send; });
    const std::span<Event> sent(events.begin(), receives), received(receives, events.end());
    std::sort(sent.begin(), sent.end(),
              [](const Event& a, const Event& b) { return a.begin < b.begin; });
    std::vector<std::int64_t> busy_until;
    for (std::size_t i = 0; i < sent.size(); ++i) send(sent, i, busy_until);
    if (received.empty()) return;
    const TrackOf track{by_.rank, kReceived};
    to_.thread(track, "received");
    std::sort(received.begin(), received.end(),
              [](const Event& a, const Event& b) { return a.end < b.end; });
    std::int64_t last = 0;
    for (std::size_t i = 0; i < received.size(); ++i) {
      Event mark = received[i];
      mark.begin = last = std::max(last, mark.end);
      mark.end = last += kMark;
      const std::uint64_t id = number(received, i, mark.peer, by_.rank);
      message(track, mark, id);
      to_.arrow(false, id, track, time(mark.begin));
    }
  }

 private:
  std::int64_t time(std::int64_t of_here) const { return by_.time ? by_.time(of_here) : of_here; }

  void slice(const TrackOf& track, std::string_view name, const Event& e,
             std::span<const std::pair<const char*, std::string>> args) {
    to_.slice(track, {.name = name,
                      .category = category(e.kind),
                      .begin = time(e.begin),
                      .end = time(e.end),
                      .args = args});
  }

  // Slices of the layers that a call is in: open as long as calls of theirs follow each other.
  void enter(const Event& e) {
    const std::vector<std::string> path = parts_of(Scope::path(e.scope));
    std::size_t same = 0;
    while (same < std::min(path.size(), open_.size()) && open_[same].name == path[same]) ++same;
    leave(same);
    for (std::size_t i = same; i < path.size(); ++i) open_.push_back({path[i], e.begin, e.end});
    for (Open& o : open_) o.end = e.end;
  }
  void leave(std::size_t depth) {
    for (; open_.size() > depth; open_.pop_back())
      to_.slice({by_.rank, kComputing}, {.name = open_.back().name,
                                         .category = "scope",
                                         .begin = time(open_.back().begin),
                                         .end = time(open_.back().end)});
  }

  void send(std::span<const Event> sent, std::size_t i, std::vector<std::int64_t>& busy_until) {
    const Event& e = sent[i];
    std::size_t lane = 0;
    while (lane < busy_until.size() && busy_until[lane] > e.begin) ++lane;
    const TrackOf track{by_.rank, kMessages + static_cast<int>(lane)};
    if (lane == busy_until.size()) {
      busy_until.push_back(0);
      to_.thread(track, lane == 0 ? "messages" : fmt::format("messages {}", lane + 1));
    }
    busy_until[lane] = e.end;
    const std::uint64_t id = number(sent, i, by_.rank, e.peer);
    message(track, e, id);
    to_.arrow(true, id, track, time(e.begin));
  }

  void message(const TrackOf& track, const Event& e, std::uint64_t id) {
    const char* const direction = e.kind == Kind::send ? "to" : "from";
    const std::string scope = Scope::path(e.scope);
    const std::pair<const char*, std::string> args[] = {{direction, fmt::format("{}", e.peer)},
                                                        {"bytes", fmt::format("{}", e.bytes)},
                                                        {"step", fmt::format("{}", e.step)},
                                                        {"tag", fmt::format("{}", e.tag)},
                                                        {"message", fmt::format("{}", id)}};
    slice(track, fmt::format("{} {} {}", scope.empty() ? "message" : scope, direction, e.peer), e,
          args);
  }

  // The same on both sides, by ranks, step, tag, and which of these it is: those of one tag come in the order in which
  // they are sent. Below 2^53, as numbers of JSON are.
  static std::uint64_t number(std::span<const Event> all, std::size_t i, int from, int to) {
    const Event& e = all[i];
    std::uint64_t nth = 0;
    for (std::size_t k = i; k-- > 0 && all[k].step == e.step;)
      nth += all[k].peer == e.peer && all[k].tag == e.tag;
    std::uint64_t hash = 14695981039346656037u;
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to),
          static_cast<std::uint64_t>(e.step), static_cast<std::uint64_t>(e.tag), nth})
      for (int shift = 0; shift < 64; shift += 8)
        hash = (hash ^ ((part >> shift) & 255)) * 1099511628211u;
    return hash >> 11;
  }

  struct Open {
    std::string name;
    std::int64_t begin, end;
  };
  const RecordedBy& by_;
  ChromeEvents& to_;
  std::vector<Open> open_;
};

}  // namespace

void write(timeline::Recording& recording, const RecordedBy& by, ChromeEvents& to) {
  to.process(by.rank, by.host.empty() ? "ebb" : fmt::format("rank {} on {}", by.rank, by.host));
  Writer writer(by, to);
  writer.computing(in_order(recording.work()));
  writer.messages(in_order(recording.messages()));
}

}  // namespace ebb::report
