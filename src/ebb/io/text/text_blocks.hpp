// A text file in blocks of whole records, in bounded memory, several of them at once in work.
//
//   TextBlocks blocks("rows.csv", {.quote = '"'});
//   blocks.each([&](std::size_t slot, const TextBlock& b) { … },   // on any thread: fills the slot
//               [&](std::size_t slot) { … });                     // in the order of the file: takes it
//
// A record is a line; where quotes are known, a newline between two of them ends none. Blocks depend on
// the file alone, never on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/bytes.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/byte_stream.hpp"

namespace ebb::io {

struct TextBlock {
  std::string_view text;  // ends with a newline, but for the last of the file; kPadding may be read
  std::uint64_t offset = 0;  // of its first byte in the file, unpacked
};

struct TextBlocksOptions {
  char quote = 0;            // 0: none
  ByteSize longest = 1_MiB;  // record; a longer one is refused
  ByteSize block = 256_KiB;  // about so much at once
};

class TextBlocks {
 public:
  static constexpr std::size_t kPadding = 64;  // bytes behind a block's text that are there

  TextBlocks(const std::string& path, TextBlocksOptions options = {});
  std::size_t slots() const { return buffers_.size(); }

  using Parse = std::function<void(std::size_t slot, const TextBlock& block)>;
  using Take = std::function<void(std::size_t slot)>;
  void each(const Parse& parse, const Take& take);

 private:
  bool next(memory::Buffer& buffer, TextBlock& block);
  std::size_t whole(std::string_view text) const;  // bytes of the records that end in it

  std::string path_;
  TextBlocksOptions options_;
  ByteStream stream_;
  std::vector<memory::Buffer> buffers_;  // one a slot
  memory::Buffer carried_;               // what the last block left of the record it was cut in
  std::size_t carried_bytes_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

// The line, from 1, that byte `offset` of a text file stands in. It is counted, for an error's sake.
std::uint64_t line_of(const std::string& path, std::uint64_t offset);
[[noreturn]] void refuse_at(const std::string& path, std::uint64_t offset, std::string_view why);

// Refuses a block with NUL or what is not UTF-8.
void check_text(const std::string& path, const TextBlock& block);

}  // namespace ebb::io
