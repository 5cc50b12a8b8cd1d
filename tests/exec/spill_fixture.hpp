// What tests of the spill file share: a folder of their own, aligned bytes, and a hand that changes the file
// behind its back. Each runs with direct transfers and through the page cache.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/exec/spill/spill_file.hpp"
#include "tests/error_of.hpp"

namespace ebb::exec {

namespace fs = std::filesystem;
using file_faults::Call;
using file_faults::Fault;
using file_faults::Repeat;

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * 1024;
inline constexpr std::size_t kPage = 4096;

// Memory at a multiple of 4096, plus `shift`.
class Bytes {
 public:
  explicit Bytes(std::size_t size, std::size_t shift = 0)
      : all_(static_cast<std::byte*>(
            std::aligned_alloc(kPage, (size + shift) / kPage * kPage + kPage))),
        data_(all_ + shift),
        size_(size) {
    std::memset(data_, 0, size);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(all_); }

  Bytes& fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < size_; ++i) data_[i] = static_cast<std::byte>(random());
    return *this;
  }
  std::byte& operator[](std::size_t i) { return data_[i]; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<std::byte> part(std::size_t from, std::size_t n) { return span().subspan(from, n); }
  bool operator==(const Bytes& o) const {
    return size_ == o.size_ && std::memcmp(data_, o.data_, size_) == 0;
  }

 private:
  std::byte *all_, *data_;
  std::size_t size_;
};

class SpillFixture : public testing::TestWithParam<bool> {
 protected:
  SpillFixture() {
    std::string name = "/var/tmp/ebb-spill-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    ::chmod(folder_.c_str(), 0755);
  }
  ~SpillFixture() override {
    file_faults::clear();
    fs::remove_all(folder_);
  }
  SpillOptions options() const { return {.directory = folder_, .direct = GetParam()}; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string folder_;
};

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FileError& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(line.find("spill: "), 0u) << line;
    return line;
  }
  ADD_FAILURE() << "no FileError";
  return "";
}

inline void put(SpillFile& spill, int slot, Bytes& from) {
  spill.wait(spill.write(slot, from.span()));
}
inline void get(SpillFile& spill, int slot, Bytes& to) { spill.wait(spill.read(slot, to.span())); }
inline void expect_holds(SpillFile& spill, int slot, const Bytes& expected) {
  Bytes found(expected.size());
  get(spill, slot, found);
  EXPECT_TRUE(found == expected) << "slot " << slot;
}

// Changes the file behind its back.
inline void flip(const SpillFile& spill, std::uint64_t at, std::byte mask) {
  const std::string path = "/proc/self/fd/" + std::to_string(spill.descriptor());
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  std::byte value;
  ASSERT_EQ(::pread(file, &value, 1, static_cast<off_t>(at)), 1);
  value ^= mask;
  ASSERT_EQ(::pwrite(file, &value, 1, static_cast<off_t>(at)), 1);
  ::fsync(file);
  ::close(file);
}

inline std::string transfers(const testing::TestParamInfo<bool>& info) {
  return info.param ? "Direct" : "Buffered";
}

}  // namespace ebb::exec
