#include "ebb/io/array/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/quoted.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/utf8.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kMaxHeader = 16 << 20;
constexpr std::size_t kLength = 8;                 // bytes of the header's length
constexpr std::uint64_t kSmallHeader = 256 << 10;  // not worth counting
constexpr std::uint64_t kParsed = 5;  // times its bytes: a header and what is made of it, at most

constexpr struct {
  const char* name;
  DType dtype;
} kTypes[] = {{"F32", DType::f32}, {"F64", DType::f64},     {"BF16", DType::bf16},
              {"F16", DType::f16}, {"I32", DType::i32},     {"I64", DType::i64},
              {"U8", DType::u8},   {"BOOL", DType::boolean}};

// As much of JSON as such a header has: objects, strings, lists of numbers from 0 on. Throws an Error
// that says what is wrong and where, without the path.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  bool next_is(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  void expect(char c) {
    if (!next_is(c)) wrong(fmt::format("expected '{}'", c));
    ++at_;
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void end() {
    skip();
    if (at_ != text_.size()) wrong("expected the end");
  }
  std::string string() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) wrong("a control character in a string");
      out += text_[at_] == '\\' ? escape() : std::string(1, text_[at_++]);
    }
    if (at_ == text_.size()) wrong("a string without an end");
    ++at_;
    return out;
  }
  std::uint64_t number() {
    skip();
    const std::size_t begin = at_;
    std::uint64_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(n, 10, &n) ||
          __builtin_add_overflow(n, static_cast<unsigned>(text_[at_] - '0'), &n) || n >> 62)
        wrong("a number beyond 2^62");
    if (at_ == begin) wrong("expected a whole number from 0 on");
    return n;
  }
  template <class F>
  void list(char open, char close, F item) {
    expect(open);
    if (take(close)) return;
    do item();
    while (take(','));
    expect(close);
  }
  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> all;
    list('[', ']', [&] { all.push_back(number()); });
    return all;
  }
  [[noreturn]] void wrong(std::string_view what) const {
    throw Error(fmt::format("its header is wrong at byte {}: {}", at_, what));
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_]) ++at_;
  }
  std::string escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeans = "\"\\/\b\f\n\r\t";
    ++at_;
    const char c = at_ < text_.size() ? text_[at_++] : ' ';
    if (const auto k = kNames.find(c); k != kNames.npos) return {kMeans[k]};
    unsigned code = 0;
    if (c != 'u' || text_.size() - at_ < 4) wrong("an escape that JSON does not have");
    for (int i = 0; i < 4; ++i) {
      const auto digit = std::string_view("0123456789abcdef").find(text_[at_++] | ' ');
      if (digit == std::string_view::npos) wrong("an escape that JSON does not have");
      code = code * 16 + static_cast<unsigned>(digit);
    }
    if (code >= 0xd800 && code < 0xe000) wrong("an escape of half a character");
    if (code < 0x80) return {static_cast<char>(code)};
    const auto tail = [](unsigned bits) { return static_cast<char>(0x80 | (bits & 0x3f)); };
    if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(code)};
    return {static_cast<char>(0xe0 | code >> 12), tail(code >> 6), tail(code)};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

StoredTensor tensor(Scan& scan, std::string name, std::uint64_t data_bytes) {
  StoredTensor t{std::move(name), {}, 0};
  std::vector<std::uint64_t> shape, place;
  std::set<std::string> said;
  scan.list('{', '}', [&] {
    const std::string key = scan.string();
    if (!said.insert(key).second) scan.wrong(fmt::format("\"{}\" is there twice", io::shown(key)));
    scan.expect(':');
    if (key == "dtype") {
      t.spec.dtype = safetensors_dtype(scan.string());
    } else if (key == "shape") {
      shape = scan.numbers();
    } else if (key == "data_offsets") {
      place = scan.numbers();
    } else {
      scan.wrong(fmt::format("\"{}\" says nothing about a tensor", io::shown(key)));
    }
  });
  if (said.size() != 3 || place.size() != 2)
    throw Error(fmt::format("its header does not give tensor {} a dtype, a shape and two offsets",
                            quoted(t.name)));
  t.spec.shape = Shape(std::vector<std::int64_t>(shape.begin(), shape.end()));
  t.offset = place[0];
  if (place[0] > place[1] || place[1] > data_bytes || place[1] - place[0] != t.spec.bytes())
    throw Error(
        fmt::format("tensor {} is {} and lies at bytes {} to {} of {}; the file is cut short "
                    "or damaged",
                    quoted(t.name), to_string(t.spec), place[0], place[1], data_bytes));
  return t;
}

Safetensors parse(std::string_view header, std::uint64_t data_bytes) {
  Safetensors file;
  if (io::find_not_text(header) != std::string_view::npos)
    throw Error("its header is no text: it holds a NUL byte, or what is not UTF-8");
  std::set<std::string> names;
  Scan scan(header);
  scan.list('{', '}', [&] {
    std::string name = scan.string();
    if (!names.insert(name).second)
      throw Error(fmt::format("its header names {} twice", quoted(name)));
    scan.expect(':');
    if (name == "__metadata__") {
      scan.list('{', '}', [&] {
        std::string key = scan.string();
        scan.expect(':');
        if (!file.metadata.emplace(key, scan.string()).second)
          throw Error(fmt::format("its metadata has {} twice", quoted(key)));
      });
      return;
    }
    file.tensors.push_back(tensor(scan, std::move(name), data_bytes));
  });
  scan.end();
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.spec.bytes()) < std::pair(b.offset, b.spec.bytes());
  });
  std::uint64_t end = 0;
  for (const StoredTensor& t : file.tensors) {
    if (t.offset != end)
      throw Error(fmt::format("tensor {} begins at byte {} of the data, where {} was expected",
                              quoted(t.name), t.offset, end));
    end += t.spec.bytes();
  }
  if (end != data_bytes)
    throw Error(fmt::format("its tensors have {} bytes and its data {}; the file is damaged", end,
                            data_bytes));
  return file;
}

}  // namespace

const char* safetensors_type(DType dtype) {
  for (const auto& t : kTypes)
    if (t.dtype == dtype) return t.name;
  return "";
}

DType safetensors_dtype(std::string_view name) {
  for (const auto& t : kTypes)
    if (t.name == name) return t.dtype;
  throw Error(fmt::format("dtype \"{}\", which Ebb does not have", io::shown(name)));
}

std::string safetensors_front(Safetensors& file) {
  std::string text = "{";
  if (!file.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : file.metadata)
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", quoted(key), quoted(value));
    text += "}";
  }
  std::uint64_t offset = 0;
  for (StoredTensor& t : file.tensors) {
    t.offset = offset;
    offset += t.spec.bytes();
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", quoted(t.name), safetensors_type(t.spec.dtype),
                        fmt::join(t.spec.shape.dims(), ","), t.offset, offset);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string front(kLength, '\0');
  for (std::size_t i = 0; i < kLength; ++i) front[i] = static_cast<char>(length >> 8 * i & 0xff);
  file.data = kLength + length;
  return front + text;
}

Safetensors read_safetensors_front(File& file, std::string* text, std::uint64_t known) {
  const auto refuse = [&](std::string_view why) {
    throw FileError(fmt::format("cannot load \"{}\": {}", file.path(), why));
  };
  const std::uint64_t size = file.size();
  unsigned char start[kLength] = {};
  if (size < kLength) refuse(fmt::format("{} bytes are too few for a .safetensors file", size));
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i) length |= static_cast<std::uint64_t>(start[i]) << 8 * i;
  if (length > size - kLength)
    refuse(fmt::format(
        "its header claims {} bytes, and {} are left in the file; it is no .safetensors "
        "file, or cut short",
        length, size - kLength));
  if (length > kMaxHeader)
    refuse(fmt::format("its header claims {} bytes; at most {} are read", length, kMaxHeader));
  // As much is taken from the seam and never touched, so that a budget refuses a header beyond it.
  const bool counts = length > std::max(kSmallHeader, known);
  const memory::Buffer counted(counts ? kParsed * length : 0, "safetensors header", Category::data);
  std::string front(kLength + length, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(front)));
  Safetensors found;
  try {
    found = parse(std::string_view(front).substr(kLength), size - kLength - length);
  } catch (const Error& e) {
    refuse(e.what());
  }
  found.data = kLength + length;
  if (text) *text = std::move(front);
  return found;
}

}  // namespace ebb
