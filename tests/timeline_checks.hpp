// What a file for Perfetto has to be: JSON, with slices that lie inside of each other or apart on every track, and
// messages that end on one rank after they began on another.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ebb::test {

struct TimelineRead {
  explicit TimelineRead(const std::string& text) : json(nlohmann::json::parse(text)) {
    for (const auto& e : json.at("traceEvents")) {
      if (e.at("ph") == "X") slices.push_back(e);
      if (e.at("ph") == "M" && e.at("name") == "thread_name")
        tracks[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
      if (e.at("ph") == "M" && e.at("name") == "process_name")
        processes[e.at("pid")] = e.at("args").at("name");
    }
  }
  // How many there are with this name or category, of a rank.
  int count(int rank, const std::string& name) const {
    return static_cast<int>(std::count_if(slices.begin(), slices.end(), [&](const auto& s) {
      return s.at("pid") == rank && (s.at("name") == name || s.at("cat") == name);
    }));
  }

  nlohmann::json json;
  std::vector<nlohmann::json> slices;
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<int, std::string> processes;
};

// In nanoseconds, as the file has three digits of a microsecond.
inline std::pair<std::int64_t, std::int64_t> stretch(const nlohmann::json& slice) {
  const auto whole = [](double micro) { return std::llround(micro * 1000); };
  const std::int64_t begin = whole(slice.at("ts").get<double>());
  return {begin, begin + whole(slice.at("dur").get<double>())};
}

inline void expect_no_overlaps(const TimelineRead& read) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> of_track;
  for (const auto& s : read.slices) {
    EXPECT_TRUE(read.tracks.contains({s.at("pid"), s.at("tid")}))
        << "a track without a name: " << s;
    of_track[{s.at("pid"), s.at("tid")}].push_back(stretch(s));
    EXPECT_LE(stretch(s).first, stretch(s).second) << s;
  }
  for (auto& [track, all] : of_track) {
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<std::int64_t> open;
    for (const auto& [begin, end] : all) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) {
        ASSERT_LE(end, open.back())
            << read.tracks.at(track) << " of " << track.first << ": one from " << begin
            << " ends after the one that it is in";
      }
      open.push_back(end);
    }
  }
}

// How many messages were seen on both sides; a clock may be off by this much.
inline int expect_messages_in_order(const TimelineRead& read, std::int64_t off_by = 0) {
  std::map<std::uint64_t, const nlohmann::json*> sent;
  for (const auto& s : read.slices)
    if (s.at("cat") == "send") {
      EXPECT_FALSE(sent.contains(s.at("args").at("message"))) << "two with one number";
      sent[s.at("args").at("message")] = &s;
    }
  int both = 0;
  for (const auto& s : read.slices) {
    if (s.at("cat") != "receive") continue;
    const auto at = sent.find(s.at("args").at("message"));
    if (at == sent.end()) continue;
    ++both;
    const nlohmann::json& from = *at->second;
    EXPECT_EQ(from.at("args").at("to"), s.at("pid"));
    EXPECT_EQ(s.at("args").at("from"), from.at("pid"));
    EXPECT_EQ(from.at("args").at("bytes"), s.at("args").at("bytes"));
    EXPECT_GE(stretch(s).first + off_by, stretch(from).first) << "it came before it was sent";
  }
  return both;
}

}  // namespace ebb::test
