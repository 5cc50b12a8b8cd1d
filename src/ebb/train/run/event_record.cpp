#include "ebb/train/run/event_record.hpp"

#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "ebb/train/run/crc32c.hpp"

namespace ebb::train {
namespace {

enum Kind : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum EventField : std::uint8_t { kTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSession = 7 };
constexpr std::uint64_t kStart = 1;
constexpr std::uint64_t kLongestRecord = 1 << 20;  // ours are far shorter

void add_fixed(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}
void add_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
void add_tag(std::string& to, int field, Kind kind) {
  add_varint(to, static_cast<std::uint64_t>(field << 3 | kind));
}
void add_integer(std::string& to, int field, std::uint64_t value) {
  add_tag(to, field, kVarint);
  add_varint(to, value);
}
void add_double(std::string& to, int field, double value) {
  add_tag(to, field, kFixed64);
  add_fixed(to, std::bit_cast<std::uint64_t>(value), 8);
}
void add_float(std::string& to, int field, float value) {
  add_tag(to, field, kFixed32);
  add_fixed(to, std::bit_cast<std::uint32_t>(value), 4);
}
void add_bytes(std::string& to, int field, std::string_view bytes) {
  add_tag(to, field, kBytes);
  add_varint(to, bytes.size());
  to += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void add_record(std::string& to, std::string_view message) {
  const std::size_t start = to.size();
  add_fixed(to, message.size(), 8);
  add_fixed(to, masked_crc(std::string_view(to).substr(start)), 4);
  to += message;
  add_fixed(to, masked_crc(message), 4);
}

// Reading: everything may be damaged.

std::uint64_t fixed(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::optional<std::uint64_t> take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// What is needed of an Event; none where it is not one.
std::optional<RecordSeen> seen(std::string_view message) {
  RecordSeen record;
  while (!message.empty()) {
    const auto tag = take_varint(message);
    if (!tag) return std::nullopt;
    const std::uint64_t field = *tag >> 3, kind = *tag & 7;
    std::uint64_t skip = kind == kFixed64 ? 8 : kind == kFixed32 ? 4 : 0;
    if (kind == kVarint || kind == kBytes) {
      const auto value = take_varint(message);
      if (!value) return std::nullopt;
      if (kind == kBytes) skip = *value;
      if (kind == kVarint && field == kStep) record.step = static_cast<std::int64_t>(*value);
    } else if (skip == 0) {
      return std::nullopt;
    }
    if (skip > message.size()) return std::nullopt;
    if (field == kSummary) record.has_values = true;
    message.remove_prefix(skip);
  }
  return record;
}

}  // namespace

void add_version_record(std::string& to, double time) {
  std::string event;
  add_double(event, kTime, time);
  add_bytes(event, kVersion, "brain.Event:2");
  add_record(to, event);
}

void add_start_record(std::string& to, double time, std::int64_t step) {
  std::string event, session;
  add_integer(session, 1, kStart);
  add_double(event, kTime, time);
  add_integer(event, kStep, static_cast<std::uint64_t>(step));
  add_bytes(event, kSession, session);
  add_record(to, event);
}

void add_values_record(std::string& to, const MetricsRow& row,
                       std::span<const MetricValue> values) {
  std::string event, summary, value;
  for (const MetricValue& m : values) {
    value.clear();
    add_bytes(value, 1, m.name);
    add_float(value, 2, static_cast<float>(m.value));
    add_bytes(summary, 1, value);
  }
  add_double(event, kTime, row.time);
  add_integer(event, kStep, static_cast<std::uint64_t>(row.step));
  add_bytes(event, kSummary, summary);
  add_record(to, event);
}

void add_text_record(std::string& to, const MetricsRow& row, std::string_view name,
                     std::string_view text) {
  enum ValueField : std::uint8_t { kTag = 1, kTensor = 8, kMetadata = 9 };
  constexpr std::uint64_t kString = 7;
  std::string event, summary, value, tensor, plugin, metadata;
  add_integer(tensor, 1, kString);
  add_bytes(tensor, 2, "");
  add_bytes(tensor, 8, text);
  add_bytes(plugin, 1, "text");
  add_bytes(metadata, 1, plugin);
  add_bytes(value, kTag, name);
  add_bytes(value, kTensor, tensor);
  add_bytes(value, kMetadata, metadata);
  add_bytes(summary, 1, value);
  add_double(event, kTime, row.time);
  add_integer(event, kStep, static_cast<std::uint64_t>(row.step));
  add_bytes(event, kSummary, summary);
  add_record(to, event);
}

void each_record(File& file, const std::function<bool(const RecordSeen&)>& f) {
  constexpr std::uint64_t kHead = 12, kTail = 4;
  const std::uint64_t size = file.size();
  std::string bytes;
  const auto read = [&](std::uint64_t offset, std::uint64_t count) -> std::string_view {
    bytes.resize(count);
    file.read_at(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  };
  for (std::uint64_t at = 0; size - at >= kHead + kTail;) {
    const std::string_view head = read(at, kHead);
    const std::uint64_t length = fixed(head.substr(0, 8));
    if (fixed(head.substr(8)) != masked_crc(head.substr(0, 8)) || length > kLongestRecord ||
        length > size - at - kHead - kTail)
      return;
    const std::string_view body = read(at + kHead, length + kTail);
    const std::string_view message = body.substr(0, length);
    if (fixed(body.substr(length)) != masked_crc(message)) return;
    auto record = seen(message);
    if (!record) return;
    at += kHead + length + kTail;
    record->end = at;
    if (!f(*record)) return;
  }
}

}  // namespace ebb::train
