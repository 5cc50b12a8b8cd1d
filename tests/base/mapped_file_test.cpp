#include "ebb/base/files/mapped_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/runtime.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

constexpr std::size_t kPage = 4096;

// Of so many bytes, each page another letter, without a name.
File file_of(std::size_t bytes) {
  File file = File::temporary(temporary_folder());
  std::string content(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>('a' + i / kPage % 26);
  file.write(content);
  return file;
}

bool found(MappedFile& mapped, const File& file, std::uint64_t offset, std::size_t bytes) {
  return MappedFile::Reading(mapped, file).find(offset, bytes) != nullptr;
}

// Touches all of it through the mapping.
void touch(MappedFile& mapped, const File& file, std::size_t bytes) {
  mapped.was_read(0, bytes);
  MappedFile::Reading reading(mapped, file);
  volatile std::byte sink{};
  for (std::size_t at = 0; at < bytes; at += kPage) {
    const std::byte* const page = reading.find(at, 1);
    ASSERT_NE(page, nullptr);
    sink = *page;
  }
  (void)sink;
}

TEST(MappedFile, GivesWhatWasReadBefore) {
  const std::size_t bytes = 6 * (kPage << 10) + 100;  // more than is asked of the kernel at once
  const File file = file_of(bytes);
  MappedFile mapped(file);
  EXPECT_FALSE(found(mapped, file, 0, 1)) << "a first read is never by the mapping";
  mapped.was_read(kPage + 10, 1);
  EXPECT_TRUE(found(mapped, file, kPage, kPage)) << "its page is there as a whole";
  EXPECT_FALSE(found(mapped, file, kPage - 1, 2));
  EXPECT_FALSE(found(mapped, file, 2 * kPage - 1, 2));
  mapped.was_read(0, bytes);
  MappedFile::Reading reading(mapped, file);
  for (const std::size_t at : {std::size_t{0}, kPage - 1, 4 * (kPage << 10) - 7, bytes - 9}) {
    const std::byte* const there = reading.find(at, 9);
    ASSERT_NE(there, nullptr) << at;
    for (std::size_t i = 0; i < 9; ++i)
      EXPECT_EQ(static_cast<char>(there[i]), static_cast<char>('a' + (at + i) / kPage % 26));
  }
  EXPECT_EQ(reading.find(bytes - 9, 10), nullptr) << "beyond its end";
  EXPECT_EQ(reading.find(~std::uint64_t{0}, 10), nullptr);
}

TEST(MappedFile, WhatHasLeftThePageCacheIsRead) {
  File file = file_of(10 * kPage);
  if (file.in_memory()) GTEST_SKIP() << "a file system in memory";
  MappedFile mapped(file);
  mapped.was_read(0, 10 * kPage);
  file.sync();
  file.drop_cached(0, 10 * kPage);
  EXPECT_FALSE(found(mapped, file, 0, 1)) << "a disk would be waited for";
  std::vector<std::byte> all(10 * kPage);
  file.read_at(0, all);
  EXPECT_TRUE(found(mapped, file, 0, 1));
}

TEST(MappedFile, FaultsReachIt) {
  const file_faults::Guard guard;
  const File file = file_of(kPage);
  MappedFile mapped(file);
  mapped.was_read(0, kPage);
  file_faults::fail_read(1, file_faults::Fault::eio);
  EXPECT_HAS(test::error_of([&] { found(mapped, file, 0, 1); }), "cannot read \"" + file.path());
  EXPECT_TRUE(found(mapped, file, 0, 1)) << "once";
  file_faults::fail_read(1, file_faults::Fault::short_count);
  EXPECT_FALSE(found(mapped, file, 0, 1)) << "to be read, where the rest follows";
}

TEST(MappedFile, AllTogetherTakeNoMoreThanIsSaid) {
  const std::uint64_t before = MappedFile::expected_bytes();
  File large = File::temporary(temporary_folder()), other = File::temporary(temporary_folder());
  large.truncate(MappedFile::kMost - before);  // of holes
  other.truncate(kPage);
  auto first = std::make_unique<MappedFile>(large);
  EXPECT_EQ(MappedFile::expected_bytes(), MappedFile::kMost);
  {
    MappedFile second(other);
    second.was_read(0, 1);
    EXPECT_FALSE(found(second, other, 0, 1)) << "there is no room left";
  }
  first.reset();
  EXPECT_EQ(MappedFile::expected_bytes(), before);
  MappedFile second(other);
  std::byte byte{};
  other.read_at(0, {&byte, 1});
  second.was_read(0, 1);
  EXPECT_TRUE(found(second, other, 0, 1));
  large.truncate(MappedFile::kMost + 1);
  EXPECT_EQ(MappedFile(large).expected_bytes(), before + kPage) << "too large by itself";
  EXPECT_EQ(MappedFile(File::open("/dev/zero")).expected_bytes(), before + kPage);
}

TEST(MappedFile, IsNoneOfTheMemoryOfABudget) {
  const std::size_t bytes = 24 << 20;
  const File file = file_of(bytes);
  MappedFile mapped(file);
  const std::uint64_t before = process::mapped();
  touch(mapped, file, bytes);
  EXPECT_GT(process::mapped(), before + bytes / 2);
  EXPECT_LT(runtime::reserve(), 20u << 20) << "nothing is set aside for it";
  touch(mapped, file, bytes);
  EXPECT_FALSE(runtime::remeasure() && runtime::beside_ebb() > bytes / 2);
  touch(mapped, file, bytes);
  {
    const Budget budget(1_GiB);
    EXPECT_LT(process::mapped(), before + bytes / 4) << "gone when there is a budget";
    EXPECT_EQ(MappedFile::expected_bytes(), 0u);
    EXPECT_FALSE(found(mapped, file, 0, 1));
  }
  EXPECT_TRUE(found(mapped, file, 0, 1));
}

// Budgets come and go while others read.
TEST(MappedFile, IsThereForAsLongAsItIsRead) {
  const std::size_t bytes = 256 * kPage;
  const File file = file_of(bytes);
  MappedFile mapped(file);
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t)
    readers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        mapped.was_read(0, bytes);
        MappedFile::Reading reading(mapped, file);
        for (std::size_t page = 0; page < 256; ++page) {
          const std::byte* const there = reading.find(page * kPage, kPage);
          if (!there) continue;
          ASSERT_EQ(static_cast<char>(there[kPage - 1]), static_cast<char>('a' + page % 26));
        }
      }
    });
  for (int i = 0; i < 100; ++i) const Budget budget(1_GiB);
  for (std::thread& t : readers) t.join();
}

}  // namespace
}  // namespace ebb
