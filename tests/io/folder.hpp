// A folder of its own for a test's files, and what to put there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "ebb/base/files/file.hpp"
#include "tests/error_of.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

namespace ebb::test {

class InFolder : public testing::Test {
 protected:
  InFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ebb-io-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& content) const {
    std::filesystem::remove(path(name));
    File::create(path(name)).write(content);
    return path(name);
  }
  std::string folder_;
};

// wbits: -15 a bare deflate stream, 31 a gzip member.
inline std::string deflated(const std::string& text, int wbits) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, wbits, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<unsigned>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
inline std::string gzipped(const std::string& text) { return deflated(text, 31); }

}  // namespace ebb::test
