#include "ebb/text/bpe.hpp"
#include "ebb/text/vocabulary_file.hpp"
#include "tests/fuzz/fuzz.hpp"

// What is read is written as the same bytes, and every token can be encoded and decoded.
void read_file_of(const std::string& path) {
  using namespace ebb;
  const auto vocabulary = text::load_vocabulary(path);
  const std::string written = text::vocabulary_text(*vocabulary);
  const auto again = text::parse_vocabulary(written, "again");
  if (text::vocabulary_text(*again) != written) std::abort();
  for (std::int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string piece(vocabulary->piece(id));
    if (vocabulary->decode(vocabulary->encode(piece).data<std::int32_t>()) != piece) std::abort();
  }
}
