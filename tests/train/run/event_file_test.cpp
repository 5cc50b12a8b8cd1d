// Event files, read back by a decoder that shares nothing with the encoder.
#include "ebb/train/run/event_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "ebb/train/run/crc32c.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using test::content;
using test::Folder;

std::uint32_t bitwise_crc32c(const std::string& bytes) {  // from the polynomial, bit by bit
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = (static_cast<unsigned char>(c) >> bit) & 1;
      const bool carry = ((crc ^ in) & 1) != 0;
      crc >>= 1;
      if (carry) crc ^= 0x82f63b78;
    }
  return ~crc;
}

struct Event {
  double time = 0;
  std::int64_t step = 0;
  std::string version;
  int session = 0;
  std::map<std::string, float> values;
};

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.size(); }
  template <class T>
  T fixed() {
    T value{};
    if (bytes_.size() - at_ < sizeof value) throw std::runtime_error("cut short");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      value += static_cast<std::uint64_t>(byte % 128) << shift;
      if (byte < 128) return value;
    }
  }
  std::string bytes(std::uint64_t count) {
    if (bytes_.size() - at_ < count) throw std::runtime_error("cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

Event decoded(const std::string& message) {
  Event event;
  for (Reader r(message); !r.done();) {
    switch (r.varint()) {
      case 0x09:
        event.time = r.fixed<double>();
        break;
      case 0x10:
        event.step = static_cast<std::int64_t>(r.varint());
        break;
      case 0x1a:
        event.version = r.bytes(r.varint());
        break;
      case 0x3a: {
        Reader session(r.bytes(r.varint()));
        EXPECT_EQ(session.varint(), 0x08u);
        event.session = static_cast<int>(session.varint());
        break;
      }
      case 0x2a: {
        for (Reader summary(r.bytes(r.varint())); !summary.done();) {
          EXPECT_EQ(summary.varint(), 0x0au);
          Reader value(summary.bytes(summary.varint()));
          EXPECT_EQ(value.varint(), 0x0au);
          const std::string tag = value.bytes(value.varint());
          EXPECT_EQ(value.varint(), 0x15u);
          event.values[tag] = value.fixed<float>();
        }
        break;
      }
      default:
        throw std::runtime_error("an unknown field");
    }
  }
  return event;
}

std::vector<Event> events(const std::string& bytes) {
  std::vector<Event> all;
  const auto unmasked = [](std::uint32_t masked) {
    const std::uint32_t rotated = masked - 0xa282ead8;
    return rotated >> 17 | rotated << 15;
  };
  for (Reader r(bytes); !r.done();) {
    const std::string length = r.bytes(8);
    EXPECT_EQ(unmasked(r.fixed<std::uint32_t>()), bitwise_crc32c(length));
    std::uint64_t count = 0;
    std::memcpy(&count, length.data(), 8);
    const std::string message = r.bytes(count);
    EXPECT_EQ(unmasked(r.fixed<std::uint32_t>()), bitwise_crc32c(message));
    all.push_back(decoded(message));
  }
  return all;
}

std::vector<Event> events_in(const Folder& folder) {
  std::vector<Event> all;
  for (const std::string& name : test::names_in(folder.path))
    for (Event& e : events(content(folder / name))) all.push_back(std::move(e));
  return all;
}

std::vector<std::int64_t> steps_with_values(const Folder& folder) {
  std::vector<std::int64_t> steps;
  for (const Event& e : events_in(folder))
    if (!e.values.empty()) steps.push_back(e.step);
  return steps;
}

void write_steps(const Folder& folder, std::int64_t from, std::int64_t to, double time = 1.76e9) {
  EventFile file(folder.path, from, time);
  for (std::int64_t step = from + 1; step <= to; ++step) {
    const MetricValue values[] = {{"loss", 1. / static_cast<double>(step)}};
    file.add({.step = step, .epoch = 0, .time = time}, values);
  }
}

TEST(EventFile, ChecksumIsTheKnownOne) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(bitwise_crc32c("123456789"), 0xe3069283u);
}

TEST(EventFile, RecordsAreDecodedBack) {
  const Folder folder;
  {
    EventFile file(folder.path, 0, 1760000000.5);
    const MetricValue values[] = {{"loss", 0.25},
                                  {"eval/accuracy", 0.5},
                                  {"nan", std::numeric_limits<double>::quiet_NaN()},
                                  {std::string_view("\xc3\xa9t\xc3\xa9"), -1e30}};
    file.add({.step = 1, .epoch = 0, .time = 1760000001.25}, values);
    file.add({.step = 300000000000, .epoch = 0, .time = 1760000002}, std::span(values, 1));
  }
  EXPECT_EQ(test::names_in(folder.path),
            std::vector<std::string>{"events.out.tfevents.1760000000.ebb.000"});
  const auto all = events_in(folder);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].version, "brain.Event:2");
  EXPECT_EQ(all[0].time, 1760000000.5);
  EXPECT_EQ(all[1].session, 1);
  EXPECT_EQ(all[1].step, 1);
  EXPECT_EQ(all[2].step, 1);
  EXPECT_EQ(all[2].time, 1760000001.25);
  EXPECT_EQ(all[2].values.at("loss"), 0.25f);
  EXPECT_EQ(all[2].values.at("eval/accuracy"), 0.5f);
  EXPECT_TRUE(std::isnan(all[2].values.at("nan")));
  EXPECT_EQ(all[2].values.at("\xc3\xa9t\xc3\xa9"), -1e30f);
  EXPECT_EQ(all[3].step, 300000000000);
}

TEST(EventFile, GoingOnCutsRecordsAfterTheStep) {
  const Folder folder;
  write_steps(folder, 0, 20);
  write_steps(folder, 10, 15);
  EXPECT_EQ(test::names_in(folder.path).size(), 2u);
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 1; i <= 15; ++i) expected.push_back(i);
  EXPECT_EQ(steps_with_values(folder), expected);
  write_steps(folder, 10, 12);  // the second file holds nothing any more, and is the last
  EXPECT_EQ(test::names_in(folder.path).size(), 3u);
  write_steps(folder, 10, 12);  // the third one is
  EXPECT_EQ(test::names_in(folder.path).size(), 3u);
  expected.resize(12);
  EXPECT_EQ(steps_with_values(folder), expected);
  int starts = 0;
  for (const Event& e : events_in(folder)) starts += e.session == 1;
  EXPECT_EQ(starts, 2);  // those of a file that is cut go with the rest
}

TEST(EventFile, ANewFileSortsLastWhateverTheClockSays) {
  const Folder folder;
  write_steps(folder, 0, 5, 1.76e9);
  write_steps(folder, 5, 8, 1.6e9);
  write_steps(folder, 8, 9, 1.76e9);
  EXPECT_EQ(test::names_in(folder.path).back(), "events.out.tfevents.1760000000.ebb.002");
  EXPECT_EQ(steps_with_values(folder), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(EventFile, ANameIsNotUsedTwice) {  // a TensorBoard that is open would not look again
  const Folder folder;
  write_steps(folder, 0, 5);
  write_steps(folder, 0, 5);
  EXPECT_EQ(test::names_in(folder.path),
            (std::vector<std::string>{"events.out.tfevents.1760000000.ebb.000",
                                      "events.out.tfevents.1760000000.ebb.001"}));
}

TEST(EventFile, TornAndDamagedEndsAreCutOff) {
  const Folder folder;
  write_steps(folder, 0, 3);
  const std::string name = test::names_in(folder.path)[0], whole = content(folder / name);
  const auto reopened = [&](const std::string& bytes) {
    for (const std::string& old : test::names_in(folder.path))
      std::filesystem::remove(folder / old);
    test::put(folder / name, bytes);
    { const EventFile file(folder.path, 100, 1.77e9); }
    return steps_with_values(folder);
  };
  const std::vector<std::int64_t> all{1, 2, 3};
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const auto steps = reopened(whole.substr(0, length));
    EXPECT_EQ(steps, std::vector(all.begin(), all.begin() + static_cast<long>(steps.size())));
    EXPECT_EQ(steps.size() == 3, length == whole.size());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const auto steps = reopened(bytes);  // whose records all have good checksums
    EXPECT_LT(steps.size(), 3u) << at;
    EXPECT_EQ(steps, std::vector(all.begin(), all.begin() + static_cast<long>(steps.size())));
  }
}

TEST(EventFile, OthersFilesAreLeftAlone) {
  const Folder folder;
  test::put(folder / "events.out.tfevents.1700000000.host.1.0", "theirs");
  test::put(folder / "notes", "mine");
  write_steps(folder, 0, 1);
  EXPECT_EQ(content(folder / "events.out.tfevents.1700000000.host.1.0"), "theirs");
  EXPECT_EQ(content(folder / "notes"), "mine");
}

}  // namespace
}  // namespace ebb::train
