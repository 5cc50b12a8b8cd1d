#include "ebb/io/array/npy.hpp"

#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) { (void)ebb::load_npy(path); }
