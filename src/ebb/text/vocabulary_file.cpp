#include "ebb/text/vocabulary_file.hpp"

#include <fmt/format.h>

#include <charconv>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/text/array.hpp"
#include "ebb/text/bpe.hpp"

namespace ebb::text {
namespace {

constexpr std::string_view kFirstLine = "ebb vocabulary 1";
constexpr std::uint64_t kMostBytes = 256 << 20;  // of a file: more than a million tokens need

std::string in_quotes(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + '"';
}

std::string bpe_line(std::int32_t id, Merge merge, std::string_view piece) {
  return fmt::format("{} = {} {} {}", id, merge.left, merge.right, in_quotes(piece));
}
std::string bytes_line(std::int32_t id, int byte) {
  return fmt::format("{} = {} {}", id, byte, in_quotes(std::string(1, static_cast<char>(byte))));
}
std::string head_line(std::string_view kind, std::int32_t size) {
  return fmt::format("{} {}", kind, size);
}

// Lines of a text, each of which ends.
class Lines {
 public:
  Lines(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  std::string_view next() {
    ++number_;
    const std::size_t end = rest_.find('\n');
    if (end == rest_.npos)
      refuse(rest_.empty() ? "the file ends before all tokens are there"
                           : "the last line does not end");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  void expect_end() {
    ++number_;
    if (!rest_.empty()) refuse("there is more than the tokens it says it has");
  }
  // What was read must be what is written for it, to the byte: nothing else has to be checked of a line.
  void expect(std::string_view line, const std::string& written) {
    if (line != written)
      refuse(
          fmt::format("found {}, expected {}", in_quotes(line.substr(0, 160)), in_quotes(written)));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw FileError(fmt::format("vocabulary \"{}\", line {}: {}", name_, number_, why));
  }

 private:
  std::string_view rest_;
  const std::string& name_;
  std::size_t number_ = 0;
};

// The number that stands here, which is taken off; 0 where there is none.
std::int32_t take_number(std::string_view& text) {
  std::int32_t number = 0;
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc() ? number : 0;
}
std::string_view after_equals(std::string_view line) {
  const std::size_t at = line.find('=');
  return at == line.npos ? std::string_view() : line.substr(at + 1);
}

std::shared_ptr<const data::Tokenizer> parse_bpe(Lines& lines, std::int32_t size) {
  Array<Merge> merges("vocabulary");
  Array<char> bytes("vocabulary");  // pieces, to check what stands in quotes
  Array<std::uint32_t> ends("vocabulary");
  for (int c = 0; c < Bpe::kBytes; ++c) {
    bytes.push_back(static_cast<char>(c));
    ends.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  const auto piece = [&](std::int32_t id) {
    const auto i = static_cast<std::size_t>(id);
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string(bytes.data() + begin, ends[i] - begin);
  };
  for (std::int32_t id = Bpe::kBytes; id < size; ++id) {
    const std::string_view line = lines.next();
    std::string_view rest = after_equals(line);
    const std::int32_t left = take_number(rest), right = take_number(rest);
    if (left < 0 || right < 0 || left >= id || right >= id)
      lines.refuse(fmt::format("token {} is made of {} and {}, expected two tokens before it", id,
                               left, right));
    const std::string made = piece(left) + piece(right);
    if (made.size() > Bpe::kLongestPiece)
      lines.refuse(fmt::format("token {} has {} bytes, expected at most {}", id, made.size(),
                               Bpe::kLongestPiece));
    lines.expect(line, bpe_line(id, {left, right}, made));
    merges.push_back({left, right});
    bytes.append(made);
    ends.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  lines.expect_end();
  return std::make_shared<Bpe>(std::span<const Merge>(merges.data(), merges.size()));
}

std::shared_ptr<const data::Tokenizer> parse_bytes(Lines& lines, std::int32_t size) {
  std::string characters;
  int before = -1;
  for (std::int32_t id = 0; id < size; ++id) {
    const std::string_view line = lines.next();
    std::string_view rest = after_equals(line);
    const std::int32_t byte = take_number(rest);
    if (byte <= before || byte > 255)
      lines.refuse(fmt::format("token {} is the byte {}, expected {} to 255: bytes ascend", id,
                               byte, before + 1));
    lines.expect(line, bytes_line(id, byte));
    characters += static_cast<char>(byte);
    before = byte;
  }
  lines.expect_end();
  return std::make_shared<data::Vocabulary>(characters);
}

}  // namespace

std::string vocabulary_text(const data::Tokenizer& tokenizer) {
  std::string out = fmt::format("{}\n", kFirstLine);
  if (const auto* bpe = dynamic_cast<const Bpe*>(&tokenizer)) {
    out += head_line("bpe", bpe->size()) + '\n';
    std::int32_t id = Bpe::kBytes;
    for (const Merge& merge : bpe->merges()) {
      out += bpe_line(id, merge, bpe->piece(id)) + '\n';
      ++id;
    }
  } else if (const auto* bytes = dynamic_cast<const data::Vocabulary*>(&tokenizer)) {
    out += head_line("bytes", bytes->size()) + '\n';
    for (std::int32_t id = 0; id < bytes->size(); ++id)
      out +=
          bytes_line(
              id, static_cast<unsigned char>(bytes->characters()[static_cast<std::size_t>(id)])) +
          '\n';
  } else {
    throw Error("save_vocabulary: only a Bpe and a Vocabulary of bytes can be saved");
  }
  return out;
}

std::shared_ptr<const data::Tokenizer> parse_vocabulary(std::string_view text,
                                                        const std::string& name) {
  Lines lines(text, name);
  lines.expect(lines.next(), std::string(kFirstLine));
  const std::string_view line = lines.next();
  const std::string_view kind = line.substr(0, line.find(' '));
  std::string_view rest = line.substr(kind.size());
  const std::int32_t size = take_number(rest);
  const bool bpe = kind == "bpe";
  if (!bpe && kind != "bytes")
    lines.refuse(fmt::format("found {}, expected bpe or bytes", in_quotes(kind.substr(0, 40))));
  const std::int32_t least = bpe ? Bpe::kBytes : 0, most = bpe ? Bpe::kMost : 256;
  if (size < least || size > most)
    lines.refuse(fmt::format("a vocabulary of {} tokens, expected {} to {}", size, least, most));
  lines.expect(line, head_line(kind, size));
  try {
    return bpe ? parse_bpe(lines, size) : parse_bytes(lines, size);
  } catch (const FileError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {  // of all lines together: a pair that occurs twice
    throw FileError(fmt::format("vocabulary \"{}\": {}", name, e.what()));
  }
}

void save_vocabulary(const data::Tokenizer& tokenizer, const std::string& path) {
  write_file(path, vocabulary_text(tokenizer));
}

std::shared_ptr<const data::Tokenizer> load_vocabulary(const std::string& path) {
  File file = File::open(path);
  const std::uint64_t size = file.size();
  if (size > kMostBytes)
    throw FileError(
        fmt::format("vocabulary \"{}\": {} bytes, expected at most {}; is it a vocabulary?", path,
                    size, kMostBytes));
  const memory::Buffer content(size, "vocabulary", Category::data);
  file.read({content.data(), content.size()});
  return parse_vocabulary({reinterpret_cast<const char*>(content.data()), content.size()}, path);
}

}  // namespace ebb::text
