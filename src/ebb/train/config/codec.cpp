#include "ebb/train/config/codec.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/train/config/keys.hpp"

namespace ebb::train {
namespace {

bool within(double x, const Range& r) {
  return std::isfinite(x) && (r.above ? x > r.low : x >= r.low) &&
         (r.below ? x < r.high : x <= r.high);
}

// " of 1 or more", " from 0 to below 1", " above 0"
std::string range_text(const Range& r) {
  const bool low = std::isfinite(r.low), high = std::isfinite(r.high);
  if (low && high)
    return fmt::format(" {} {} to {}{}", r.above ? "above" : "from", r.low, r.below ? "below " : "",
                       r.high);
  if (low) return r.above ? fmt::format(" above {}", r.low) : fmt::format(" of {} or more", r.low);
  if (high) return fmt::format(" {} {}", r.below ? "below" : "of at most", r.high);
  return "";
}

// Also "1_000" in quotes, and 1e3: a whole number is what people mean by it.
std::optional<std::int64_t> whole_of(const TomlValue& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value.is)) return *i;
  if (const auto* f = std::get_if<double>(&value.is)) {
    if (std::abs(*f) < 9e15 && *f == std::floor(*f)) return static_cast<std::int64_t>(*f);
    return {};
  }
  const auto* s = std::get_if<std::string>(&value.is);
  if (!s || s->empty() || s->front() == '_' || s->back() == '_') return {};
  std::string digits = *s;
  std::erase(digits, '_');
  std::int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || at != end) return {};
  return number;
}

std::optional<std::int64_t> whole_within(const TomlValue& value, const Range& range) {
  const auto i = whole_of(value);
  return i && within(static_cast<double>(*i), range) ? i : std::nullopt;
}

template <class T>
std::string list_text(const std::vector<T>& all) {
  std::string to;
  for (const T& x : all) (to += to.empty() ? "" : ", ") += *Codec<T>::write(x);
  return "[" + to + "]";
}

}  // namespace

void refuse(const TomlValue& value, const std::string& name, const std::string& expected) {
  throw Error(fmt::format("{}: {} is {}, expected {}", to_string(value.place), name, shown(value),
                          expected));
}

std::string expected_word(Words words) {
  std::string to;
  for (std::size_t i = 0; i < words.size(); ++i) {
    to += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    to += words[i];
  }
  return words.size() > 1 ? "one of " + to : to;
}

std::size_t read_word(const TomlValue& value, const std::string& name, Words words) {
  const auto* text = std::get_if<std::string>(&value.is);
  if (!text) refuse(value, name, expected_word(words));
  for (std::size_t i = 0; i < words.size(); ++i)
    if (*text == words[i]) return i;
  const std::string near = nearest(*text, {words.begin(), words.end()});
  refuse(value, name,
         expected_word(words) + (near.empty() ? "" : fmt::format("; do you mean {}?", near)));
}

std::string Codec<bool>::expected(const Range&) { return "true or false"; }
bool Codec<bool>::read(const TomlValue& value, const std::string& name, const Range& range) {
  const auto* b = std::get_if<bool>(&value.is);
  if (!b) refuse(value, name, expected(range));
  return *b;
}
std::optional<std::string> Codec<bool>::write(const bool& b) { return b ? "true" : "false"; }

std::string Codec<InMemory>::expected(const Range&) { return "true, false or \"auto\""; }
InMemory Codec<InMemory>::read(const TomlValue& value, const std::string& name,
                               const Range& range) {
  if (const auto* b = std::get_if<bool>(&value.is)) return *b ? InMemory::yes : InMemory::no;
  const auto* s = std::get_if<std::string>(&value.is);
  if (!s || *s != "auto") refuse(value, name, expected(range));
  return InMemory::automatic;
}
std::optional<std::string> Codec<InMemory>::write(const InMemory& i) {
  return i == InMemory::automatic ? "\"auto\"" : i == InMemory::yes ? "true" : "false";
}

std::string Codec<std::int64_t>::expected(const Range& range) {
  return "a whole number" + range_text(range);
}
std::int64_t Codec<std::int64_t>::read(const TomlValue& value, const std::string& name,
                                       const Range& range) {
  const auto i = whole_within(value, range);
  if (!i) refuse(value, name, expected(range));
  return *i;
}
std::optional<std::string> Codec<std::int64_t>::write(const std::int64_t& i) {
  return std::to_string(i);
}

std::string Codec<double>::expected(const Range& range) { return "a number" + range_text(range); }
double Codec<double>::read(const TomlValue& value, const std::string& name, const Range& range) {
  double x = std::nan("");
  if (const auto* f = std::get_if<double>(&value.is)) x = *f;
  if (const auto* i = std::get_if<std::int64_t>(&value.is)) x = static_cast<double>(*i);
  if (!within(x, range)) refuse(value, name, expected(range));
  return x;
}
std::optional<std::string> Codec<double>::write(const double& x) { return to_toml_number(x); }

std::string Codec<std::string>::expected(const Range&) { return "a text"; }
std::string Codec<std::string>::read(const TomlValue& value, const std::string& name,
                                     const Range& range) {
  const auto* s = std::get_if<std::string>(&value.is);
  if (!s) refuse(value, name, expected(range));
  return *s;
}
std::optional<std::string> Codec<std::string>::write(const std::string& s) {
  return to_toml_text(s);
}

std::string Codec<std::vector<std::int64_t>>::expected(const Range& range) {
  return fmt::format("a list of {}whole numbers{}",
                     range.length ? fmt::format("{} ", range.length) : "", range_text(range));
}
std::vector<std::int64_t> Codec<std::vector<std::int64_t>>::read(const TomlValue& value,
                                                                 const std::string& name,
                                                                 const Range& range) {
  const auto* list = std::get_if<TomlList>(&value.is);
  if (!list || (range.length && list->size() != range.length)) refuse(value, name, expected(range));
  std::vector<std::int64_t> all;
  for (const TomlValue& v : *list) {
    const auto i = whole_within(v, range);
    if (!i) refuse(value, name, expected(range));
    all.push_back(*i);
  }
  return all;
}
std::optional<std::string> Codec<std::vector<std::int64_t>>::write(
    const std::vector<std::int64_t>& all) {
  return list_text(all);
}

std::string Codec<std::vector<std::string>>::expected(const Range&) {
  return "a text or a list of texts";
}
std::vector<std::string> Codec<std::vector<std::string>>::read(const TomlValue& value,
                                                               const std::string& name,
                                                               const Range& range) {
  if (const auto* s = std::get_if<std::string>(&value.is)) return {*s};
  const auto* list = std::get_if<TomlList>(&value.is);
  if (!list) refuse(value, name, expected(range));
  std::vector<std::string> all;
  for (const TomlValue& v : *list) {
    const auto* s = std::get_if<std::string>(&v.is);
    if (!s) refuse(value, name, expected(range));
    all.push_back(*s);
  }
  return all;
}
std::optional<std::string> Codec<std::vector<std::string>>::write(
    const std::vector<std::string>& all) {
  return all.size() == 1 ? to_toml_text(all[0]) : list_text(all);
}

std::string Codec<Period>::expected(const Range&) {
  return "a number of steps or a text such as \"1 epoch\", \"10min\" or \"never\"";
}
Period Codec<Period>::read(const TomlValue& value, const std::string& name, const Range& range) {
  if (const auto* i = std::get_if<std::int64_t>(&value.is))
    if (const auto p = parse_period(std::to_string(*i))) return *p;
  if (const auto* s = std::get_if<std::string>(&value.is))
    if (const auto p = parse_period(*s)) return *p;
  refuse(value, name, expected(range));
}
std::optional<std::string> Codec<Period>::write(const Period& p) {
  return to_toml_text(to_string(p));
}

std::string Codec<BudgetConfig>::expected(const Range&) {
  return "a size such as \"64MiB\" or \"1.5GB\", or \"auto\", or \"none\"";
}
BudgetConfig Codec<BudgetConfig>::read(const TomlValue& value, const std::string& name,
                                       const Range& range) {
  const auto* s = std::get_if<std::string>(&value.is);
  if (!s) refuse(value, name, expected(range));
  if (*s == "auto") return {BudgetConfig::Kind::automatic, 0};
  if (*s == "none") return {BudgetConfig::Kind::none, 0};
  try {
    const ByteSize size = ByteSize::parse(*s);
    if (size.bytes > 0) return {BudgetConfig::Kind::bytes, size.bytes};
  } catch (const Error&) {  // refused below, with its place
  }
  refuse(value, name, expected(range));
}
std::optional<std::string> Codec<BudgetConfig>::write(const BudgetConfig& b) {
  if (b.kind == BudgetConfig::Kind::automatic) return "\"auto\"";
  if (b.kind == BudgetConfig::Kind::none) return "\"none\"";
  return to_toml_text(to_exact_string(ByteSize{b.bytes}));
}

}  // namespace ebb::train
