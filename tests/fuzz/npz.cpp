#include "ebb/io/archive/npz.hpp"

#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) {
  ebb::NpzReader npz(path);
  for (const std::string& name : npz.names()) {
    (void)npz.spec(name);
    (void)npz.rows(name);
    (void)npz.load(name);
  }
}
