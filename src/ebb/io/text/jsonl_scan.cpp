#include "ebb/io/text/jsonl_scan.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/number-inl.hpp"

namespace ebb::io {

namespace ondemand = simdjson::ondemand;

// simdjson takes memory of its own. As much is taken from the seam and never touched: it counts, and adds
// nothing to the process.
struct JsonLines::Parser {
  ondemand::parser parser;
  void* counted = nullptr;

  ~Parser() {
    if (counted) memory::give(counted);
  }
  void make_room(std::size_t line) {
    if (line <= parser.capacity()) return;
    const std::size_t capacity = std::bit_ceil(std::max<std::size_t>(line, 4096));
    // A list of places, 4 bytes for each byte of the line, and strings without their escapes.
    void* const more =
        memory::take_pages(capacity * 4 + capacity * 5 / 3 + 8192, "simdjson", Category::data);
    if (counted) memory::give(counted);
    counted = more;
    if (parser.allocate(capacity)) throw OutOfMemory("jsonl: no memory for simdjson's own buffers");
  }
};

JsonLines::JsonLines() : parser_(std::make_unique<Parser>()) {}
JsonLines::~JsonLines() = default;
JsonLines::JsonLines(JsonLines&&) noexcept = default;

void JsonLines::set_fields(std::vector<std::string> names, std::vector<As> as, bool may_miss) {
  names_ = std::move(names);
  as_ = std::move(as);
  may_miss_ = may_miss;
  values_.resize(names_.size());
}

namespace {

struct Place {  // of a line, for errors
  const std::string& path;
  std::uint64_t offset;

  [[noreturn]] void refuse(std::string_view why) const { refuse_at(path, offset, why); }
  [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
    refuse(fmt::format("field \"{}\": {}", shown(field), why));
  }
  void check(simdjson::error_code code) const {
    if (code)
      refuse(fmt::format("it is no JSON object ({})", shown(simdjson::error_message(code))));
  }
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool blank(const char* p, const char* end) {
  while (p < end && is_blank(*p)) ++p;
  return p >= end;
}

// A token as simdjson gives it goes on to the next one.
std::string_view trimmed(std::string_view token) {
  while (!token.empty() && is_blank(token.back())) token.remove_suffix(1);
  return token;
}

// A number of JSON at the start of [p, end): it knows neither a plus nor zeros in front.
[[gnu::always_inline]] inline Number json_number(const char* p, const char* end) {
  const std::size_t minus = p[0] == '-';
  if (!is_digit(p[minus]) || (p[minus] == '0' && is_digit(p[minus + 1]))) return {};
  return number_at(p, end);
}
bool within_i32(const Number& n) {
  return n.whole && n.integer == static_cast<std::int32_t>(n.integer);
}

constexpr std::ptrdiff_t kReadable = 8;  // behind a token: what follows it, or padding

// One number as a word; `integer`: whether it is one within i32.
std::uint32_t word_of(std::string_view token, JsonLines::As as, bool& integer,
                      std::string_view field, const Place& place) {
  const char* const p = token.data();
  const Number n = json_number(p, p + token.size() + kReadable);
  if (n.state == NumberState::none || !blank(n.end, p + token.size()))
    place.refuse(field, token.starts_with('"')
                            ? fmt::format("{} is text, and no number", shown(trimmed(token)))
                            : fmt::format("\"{}\" is no number", shown(trimmed(token))));
  integer = within_i32(n);
  if (as == JsonLines::As::i32) {
    if (!integer)
      place.refuse(field, fmt::format("\"{}\" is no whole number from -2147483648 to 2147483647",
                                      shown(trimmed(token))));
    return static_cast<std::uint32_t>(n.integer);
  }
  if (n.state == NumberState::too_large)
    place.refuse(field, "a number beyond what f32 holds, 3.4e38");
  return std::bit_cast<std::uint32_t>(n.value);
}

// The numbers of a list as they mostly are, straight from the text behind its bracket. False where it is
// anything else, or wrong: then nothing was taken.
bool take_numbers(const char* p, const char* end, JsonLines::As as, JsonValue& to,
                  GrowingBytes& words) {
  const auto skip = [&] {
    while (*p == ' ' || *p == '\t' || *p == '\r') ++p;  // a line ends in a newline or in padding
  };
  skip();
  if (*p == ']') return true;
  for (;; ++p) {
    skip();
    const Number n = json_number(p, end);
    const bool integer = within_i32(n);
    if (n.state != NumberState::good || (as == JsonLines::As::i32 && !integer)) break;
    *words.add_words(1) = as == JsonLines::As::i32 ? static_cast<std::uint32_t>(n.integer)
                                                   : std::bit_cast<std::uint32_t>(n.value);
    ++to.count;
    to.integers = to.integers && integer;
    p = n.end;
    skip();
    if (*p == ']') return true;
    if (*p != ',') break;
  }
  words.cut(to.first * sizeof(std::uint32_t));
  to.count = 0;
  to.integers = true;
  return false;
}

// Lists of single numbers; nothing is nested.
void take(ondemand::value value, JsonLines::As as, std::string_view field, const Place& place,
          const char* end, JsonValue& to, GrowingBytes& words) {
  ondemand::json_type type{};
  place.check(value.type().get(type));
  to.first = words.size() / sizeof(std::uint32_t);
  switch (type) {
    case ondemand::json_type::number: {
      to.type = JsonValue::Type::number;
      to.count = 1;
      const std::string_view token = value.raw_json_token();
      *words.add_words(1) = word_of(token, as, to.integers, field, place);
      to.text = token;
      return;
    }
    case ondemand::json_type::array: {
      to.type = JsonValue::Type::list;
      if (take_numbers(value.raw_json_token().data() + 1, end, as, to, words)) return;
      ondemand::array array;
      place.check(value.get_array().get(array));
      for (auto item : array) {
        std::string_view token;
        place.check(item.raw_json_token().get(token));
        bool integer = true;
        *words.add_words(1) = word_of(token, as, integer, field, place);
        to.integers = to.integers && integer;
        ++to.count;
      }
      return;
    }
    case ondemand::json_type::string:
      to.type = JsonValue::Type::string;
      place.check(value.get_string().get(to.text));
      return;
    default:
      place.refuse(field, fmt::format("\"{}\"; expected a number, a list of numbers or a string, "
                                      "or that it is ignored (data.ignore)",
                                      shown(trimmed(value.raw_json_token()))));
  }
}

}  // namespace

namespace {

// What a field that may be missing can be beside a value; true where it was that.
bool take_other(ondemand::value value, const Place& place, JsonValue& to, GrowingBytes& words) {
  ondemand::json_type type{};
  place.check(value.type().get(type));
  if (type == ondemand::json_type::null) {
    bool null = false;
    place.check(value.is_null().get(null));
    return null;
  }
  if (type != ondemand::json_type::boolean) return false;
  bool yes = false;
  place.check(value.get_bool().get(yes));
  to.type = JsonValue::Type::number;
  to.first = words.size() / sizeof(std::uint32_t);
  to.count = 1;
  to.text = yes ? "1" : "0";
  *words.add_words(1) = std::bit_cast<std::uint32_t>(yes ? 1.0f : 0.0f);
  return true;
}

}  // namespace

void JsonLines::add_unknown(std::string_view key) {
  if (unknown_.size() <= kMostFields &&
      std::find(unknown_.begin(), unknown_.end(), key) == unknown_.end())
    unknown_.emplace_back(key);
}

void JsonLines::line(const std::string& path, const TextBlock& block, std::size_t begin,
                     std::size_t end) {
  const Place place{path, block.offset + begin};
  const std::size_t bytes = end - begin;
  parser_->make_room(bytes);
  for (JsonValue& v : values_) v = {};
  const std::size_t readable = block.text.size() + TextBlocks::kPadding - begin;
  ondemand::document document;
  place.check(parser_->parser
                  .iterate(simdjson::padded_string_view(block.text.data() + begin, bytes, readable))
                  .get(document));
  ondemand::object object;
  place.check(document.get_object().get(object));
  std::size_t next = 0;  // lines mostly have their fields in one order
  found_ = 0;
  for (auto field : object) {
    std::string_view key;
    place.check(field.unescaped_key().get(key));
    std::size_t i = next;
    if (i >= names_.size() || names_[i] != key)
      for (i = 0; i < names_.size() && names_[i] != key;) ++i;
    if (i == names_.size() && may_miss_) add_unknown(key);
    if (i == names_.size() || as_[i] == As::skip) continue;
    next = i + 1;
    if (values_[i].type != JsonValue::Type::none) place.refuse(key, "it is there twice");
    ondemand::value value;
    place.check(field.value().get(value));
    ++found_;
    if (may_miss_ && take_other(value, place, values_[i], words_)) continue;
    take(value, as_[i], names_[i], place, block.text.data() + end + kReadable, values_[i], words_);
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    place.refuse("something follows its object");
  for (std::size_t i = 0; i < values_.size() && found_ < values_.size() && !may_miss_; ++i)
    if (as_[i] != As::skip && values_[i].type == JsonValue::Type::none)
      place.refuse(names_[i], "it is not there; every line needs the fields of the first");
}

void JsonLines::parse(const std::string& path, const TextBlock& block, const Row& row) {
  for (std::size_t at = 0; at < block.text.size();) {
    const std::size_t end = std::min(block.text.find('\n', at), block.text.size());
    const std::string_view text = block.text.substr(at, end - at);
    if (!blank(text.data(), text.data() + text.size())) {
      words_.clear();
      line(path, block, at, end);
      row(values_, at);
    }
    at = end + 1;
  }
}

namespace {

JsonType type_of(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::null:
      return JsonType::null;
    case ondemand::json_type::number:
    case ondemand::json_type::boolean:
      return JsonType::number;
    case ondemand::json_type::array:
      return JsonType::list;
    case ondemand::json_type::string:
      return JsonType::string;
    default:
      return JsonType::object;
  }
}

}  // namespace

std::vector<JsonlFirst> JsonLines::first(const std::string& path, const TextBlock& block) {
  const std::size_t begin = block.text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  const Place place{path, block.offset + begin};
  const std::size_t end = std::min(block.text.find('\n', begin), block.text.size());
  parser_->make_room(end - begin);
  ondemand::document document;
  const std::size_t readable = block.text.size() + TextBlocks::kPadding - begin;
  place.check(
      parser_->parser
          .iterate(simdjson::padded_string_view(block.text.data() + begin, end - begin, readable))
          .get(document));
  ondemand::object object;
  place.check(document.get_object().get(object));
  std::vector<JsonlFirst> fields;
  for (auto field : object) {
    std::string_view key;
    place.check(field.unescaped_key().get(key));
    ondemand::json_type type{};
    place.check(field.value().type().get(type));
    fields.push_back({std::string(key), type_of(type)});
    if (fields.size() > kMostFields)
      place.refuse(fmt::format("its object has more than {} fields", kMostFields));
  }
  return fields;
}

}  // namespace ebb::io
