// How much the last cache holds, as the system tells it.
#include "ebb/plan/forecast/caches.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "ebb/base/files/file.hpp"
#include "tests/temp_path.hpp"

namespace ebb::plan {
namespace {

constexpr double kMiB = 1 << 20;

void cache(const std::string& root, int index, const std::string& size, const std::string& map) {
  const std::string directory = root + "/index" + std::to_string(index);
  make_directories(directory);
  write_file(directory + "/size", size);
  write_file(directory + "/shared_cpu_map", map);
}

TEST(Caches, HalfOfTheLastOneIsCountedOn) {
  const std::string root = test::temp_path("caches");
  cache(root, 0, "32K\n", "1\n");
  cache(root, 2, "1024K\n", "1\n");
  cache(root, 3, "32768K\n", "3\n");
  EXPECT_EQ(shared_cache(1, root), 16 * kMiB);
  EXPECT_EQ(shared_cache(2, root), 16 * kMiB);
  EXPECT_EQ(shared_cache(3, root), 32 * kMiB) << "the third thread is on other cores";
  cache(root, 3, "64M\n", "ffffffff,00000003\n");
  EXPECT_EQ(shared_cache(34, root), 32 * kMiB);
  EXPECT_EQ(shared_cache(35, root), 64 * kMiB);
  std::filesystem::remove_all(root);
}

// As in many containers; or the cores' own caches are all there is.
TEST(Caches, WithoutALastOneTheNearOnesCount) {
  EXPECT_EQ(shared_cache(2, "/nowhere"), near_cache(2) / 2);
  const std::string root = test::temp_path("no-caches");
  cache(root, 3, "a lot", "many");
  EXPECT_EQ(shared_cache(2, root), near_cache(2) / 2);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ebb::plan
