#include "ebb/train/config/config.hpp"

#include "ebb/base/files/file.hpp"
#include "tests/fuzz/fuzz.hpp"

// What is read is written and read again: the same config.
void read_file_of(const std::string& path) {
  using namespace ebb::train;
  const std::string text = ebb::read_file(path);
  const Config config = parse_config(text);
  if (!(parse_config(to_toml(config)) == config)) std::abort();
}
