#include "ebb/train/build/fingerprint.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "tests/error_of.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using test::Folder;

TEST(Fingerprint, TellsFilesApart) {
  const Folder folder;
  std::set<std::string> seen;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{3 << 20}}) {
    std::string bytes(size, 'a');
    test::put(folder / "file", bytes);
    EXPECT_TRUE(seen.insert(fingerprint(folder / "file")).second) << size;
    EXPECT_HAS(fingerprint(folder / "file"), std::to_string(size) + " bytes");
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      if (size < 2) continue;
      bytes[at] = 'b';
      test::put(folder / "file", bytes);
      EXPECT_TRUE(seen.insert(fingerprint(folder / "file")).second) << size << " at " << at;
      bytes[at] = 'a';
    }
  }
  std::string half(3 << 20, 'a');
  std::fill(half.begin() + (1 << 20), half.begin() + (2 << 20), 'c');
  test::put(folder / "file", half);
  EXPECT_TRUE(seen.insert(fingerprint(folder / "file")).second);
}

TEST(Fingerprint, NeitherNameNorTimeMatter) {
  const Folder folder;
  test::put(folder / "a", "some rows\n");
  const std::string first = fingerprint(folder / "a");
  std::filesystem::last_write_time(
      folder / "a", std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_EQ(fingerprint(folder / "a"), first);
  std::filesystem::rename(folder / "a", folder / "b");
  EXPECT_EQ(fingerprint(folder / "b"), first);
  EXPECT_HAS(ebb::test::error_of([&] { fingerprint(folder / "none"); }), "No such file");
}

TEST(Fingerprint, OfAFolderItsFilesWithTheirNames) {
  const Folder folder;
  for (const char* name : {"cats", "dogs"}) std::filesystem::create_directories(folder / name);
  test::put(folder / "cats/1.png", "one");
  test::put(folder / "dogs/1.png", "two!");
  const std::string first = fingerprint(folder.path);
  EXPECT_HAS(first, "2 files, 7 bytes");
  std::filesystem::rename(folder / "dogs/1.png", folder / "cats/2.png");
  EXPECT_NE(fingerprint(folder.path), first);
  std::filesystem::rename(folder / "cats/2.png", folder / "dogs/1.png");
  EXPECT_EQ(fingerprint(folder.path), first);
  test::put(folder / "dogs/1.png", "two?");
  EXPECT_NE(fingerprint(folder.path), first);
}

}  // namespace
}  // namespace ebb::train
