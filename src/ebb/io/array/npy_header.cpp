#include "ebb/io/array/npy_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

constexpr bool kLittle = std::endian::native == std::endian::little;

// Text from a file, made safe for a one-line message.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 40 ? out + "..." : out;
}

[[noreturn]] void refuse_dtype(std::string_view descr, std::string_view what) {
  throw Error(
      fmt::format("the dtype \"{}\" is {}, which Ebb does not read; save it as float16, "
                  "float32, float64, int32, int64, uint8 or bool",
                  shown(descr), what));
}

const char* kind_name(char kind) {
  switch (kind) {
    case 'f':
      return "a float";
    case 'i':
      return "a signed integer";
    case 'u':
      return "an unsigned integer";
    case 'b':
      return "a bool";
    case 'c':
      return "a complex dtype";
    case 'O':
      return "an object dtype (pickled)";
    case 'S':
    case 'a':
      return "a byte string dtype";
    case 'U':
      return "a string dtype";
    case 'V':
      return "a raw or structured dtype";
    case 'M':
      return "a date dtype";
    case 'm':
      return "a time dtype";
    default:
      return nullptr;
  }
}

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"f4", DType::f32},    {"f8", DType::f64}, {"f2", DType::f16},
                             {"i4", DType::i32},    {"i8", DType::i64}, {"u1", DType::u8},
                             {"b1", DType::boolean}};

struct Element {
  DType dtype;
  bool swapped;
};

// "<f4": byte order, kind, bytes.
Element parse_descr(std::string_view descr) {
  std::string_view rest = descr;
  char order = '|';
  if (!rest.empty() && std::string_view("<>=|").find(rest[0]) != std::string_view::npos) {
    order = rest[0];
    rest.remove_prefix(1);
  }
  const char* kind = rest.empty() ? nullptr : kind_name(rest[0]);
  if (!kind) refuse_dtype(descr, "unknown");
  const std::string_view width = rest.substr(1);
  const auto known = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                  [&](const Descr& d) { return d.text == rest; });
  if (known == std::end(kDescrs)) {
    if (std::string_view("fiub").find(rest[0]) == std::string_view::npos) refuse_dtype(descr, kind);
    const bool plain = !width.empty() && width.size() <= 2 &&
                       width.find_first_not_of("0123456789") == std::string_view::npos;
    refuse_dtype(descr, plain ? fmt::format("{} of {} byte{}", kind, width, width == "1" ? "" : "s")
                              : "unknown");
  }
  const DType dtype = known->dtype;
  if (size_of(dtype) > 1 && order == '|') refuse_dtype(descr, "without a byte order");
  return {dtype, size_of(dtype) > 1 && (order == '<' || order == '>') && (order == '<') != kLittle};
}

// A reader of exactly the Python that NumPy writes there: {'key': value, …}.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader header() {
    NpyHeader out;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!at('}')) {
      const std::string_view key = quoted("a key");
      expect(':');
      if (key == "descr") {
        once(descr, key);
        const Element element = parse_descr(descr_text());
        out.spec.dtype = element.dtype;
        out.swapped = element.swapped;
      } else if (key == "fortran_order") {
        once(order, key);
        out.fortran_order = truth();
      } else if (key == "shape") {
        once(shape, key);
        out.spec.shape = tuple();
      } else {
        throw Error(
            fmt::format("the header has an unknown key \"{}\"; expected descr, "
                        "fortran_order and shape",
                        shown(key)));
      }
      if (!at('}')) expect(',');
    }
    expect('}');
    skip_spaces();
    if (text_.substr(place_) != "\n") wrong("a newline that ends the header");
    if (!descr || !order || !shape)
      throw Error(fmt::format("the header has no \"{}\"; expected descr, fortran_order and shape",
                              !descr   ? "descr"
                              : !order ? "fortran_order"
                                       : "shape"));
    return out;
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) {
    throw Error(fmt::format("the header is malformed at byte {}: expected {}, found \"{}\"", place_,
                            expected, shown(text_.substr(place_, 12))));
  }
  static void once(bool& seen, std::string_view key) {
    if (seen) throw Error(fmt::format("the header names \"{}\" twice", key));
    seen = true;
  }
  void skip_spaces() {
    while (place_ < text_.size() && text_[place_] == ' ') ++place_;
  }
  bool at(char c) {
    skip_spaces();
    return place_ < text_.size() && text_[place_] == c;
  }
  void expect(char c) {
    if (!at(c)) wrong(fmt::format("'{}'", c));
    ++place_;
  }
  bool word(std::string_view w) {
    if (!text_.substr(place_).starts_with(w)) return false;
    place_ += w.size();
    return true;
  }
  std::string_view quoted(std::string_view what) {
    if (!at('\'') && !at('"')) wrong(what);
    const std::size_t begin = place_ + 1, end = text_.find(text_[place_], begin);
    const std::string_view inside = text_.substr(begin, end - begin);
    if (end == std::string_view::npos || inside.find('\\') != std::string_view::npos) wrong(what);
    place_ = end + 1;
    return inside;
  }
  std::string_view descr_text() {
    if (at('['))
      throw Error(
          "the dtype is a structured dtype, which Ebb does not read; save each field as an "
          "array of its own");
    return quoted("a dtype");
  }
  bool truth() {
    skip_spaces();
    if (word("True")) return true;
    if (word("False")) return false;
    wrong("True or False");
  }
  std::int64_t size() {
    std::uint64_t value = 0;
    const std::size_t begin = place_;
    for (; place_ < text_.size() && text_[place_] >= '0' && text_[place_] <= '9'; ++place_) {
      value = value * 10 + static_cast<std::uint64_t>(text_[place_] - '0');
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 16)
        throw Error("the shape has a size too large to be addressed");
    }
    if (place_ == begin) wrong("a size");
    if (text_[begin] == '0' && place_ - begin > 1) {
      place_ = begin;
      wrong("a size without leading zeros");
    }
    return static_cast<std::int64_t>(value);
  }
  Shape tuple() {
    std::int64_t dims[Shape::kMaxRank];
    int rank = 0;
    bool comma = true;
    expect('(');
    while (!at(')')) {
      if (!comma) wrong("',' or ')'");
      if (rank == Shape::kMaxRank)
        throw Error(fmt::format("the shape has more than {} axes", +Shape::kMaxRank));
      dims[rank++] = size();
      comma = at(',');
      if (comma) ++place_;
    }
    if (rank == 1 && !comma) wrong("',' after the only size");
    expect(')');
    return Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank)));
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

std::string descr_of(DType dtype) {
  for (const Descr& d : kDescrs)
    if (d.dtype == dtype)
      return fmt::format("{}{}", size_of(dtype) == 1 ? '|' : kLittle ? '<' : '>', d.text);
  throw Error(
      fmt::format("{} is a type NumPy does not have; cast it to f32 first, which loses "
                  "nothing",
                  name(dtype)));
}

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return Parser(text).header(); }

std::string npy_preamble(const Spec& spec) {
  std::string shape;
  for (const std::int64_t d : spec.shape)
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", d);
  if (spec.rank() == 1) shape += ',';
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr_of(spec.dtype), shape);
  constexpr std::size_t kFront = 10, kAlign = 64;
  const std::size_t total = (kFront + dict.size() + 1 + kAlign - 1) / kAlign * kAlign;
  dict.append(total - kFront - dict.size() - 1, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

}  // namespace ebb
