// Whatever is changed in a checkpoint is noticed, named, and changes nothing in the program.
#include <fmt/format.h>
#include <sys/stat.h>

#include "ebb/base/files/file.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/xxh3.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::Tiny;

class Damage : public test::FolderTest {
 protected:
  Damage() {
    saved_.set(11);
    train::save(path_, {.step = 3, .metric = "loss", .value = 0.5, .extra = {{"a", "b"}}},
                saved_.weight, saved_);
    other_.set(12);
    before_ = other_.all();
    draws_ = random::state();
  }
  // Every way to look at it says no, in one line that names the file.
  void refused(const std::string& file, const std::string& what) {
    const std::string error = test::error_of([&] { train::load(path_, other_.weight, other_); });
    EXPECT_NE(error.find("cannot load"), std::string::npos) << what << ": " << error;
    EXPECT_NE(error.find(file), std::string::npos) << what << ": " << error;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    EXPECT_EQ(other_.all(), before_) << what;
    EXPECT_EQ(random::state(), draws_) << what;
  }
  std::string path_ = folder_ + "/run";
  Tiny saved_, other_;
  test::Bytes before_;
  random::State draws_;
};

TEST_F(Damage, EveryByteAndEveryLength) {
  std::size_t cases = 0;
  for (const std::string name : {kManifestName, kModelName, kStateName}) {
    const std::string file = path_ + "/" + name, good = read_file(file);
    File open = File::open(file, {.access = Access::write});
    const auto put = [&](std::size_t at, int byte) {
      const auto b = static_cast<std::byte>(byte);
      open.write_at(at, {&b, 1});
    };
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const int flip : {1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff}) {
        put(at, good[at] ^ flip);
        refused(name, fmt::format("{}, byte {}, bits {}", name, at, flip));
        ++cases;
      }
      put(at, good[at]);
    }
    for (std::size_t size = good.size(); size-- > 0; ++cases) {
      open.truncate(size);
      refused(name, fmt::format("{}, {} bytes", name, size));
    }
    File::create(file).write(good + "\n");
    refused(name, "longer");
    std::filesystem::remove(file);
    refused(name, "missing");
    ::mkfifo(file.c_str(), 0600);  // nobody ever writes to it
    refused(name, "no regular file");
    std::filesystem::remove(file);
    File::create(file).write(good);
    if (HasFailure()) break;
  }
  EXPECT_GT(cases, 8000u);
  train::load(path_, other_.weight, other_);
  EXPECT_EQ(other_.all(), saved_.all());
}

TEST_F(Damage, ATensorIsNamedWithBothSums) {
  const std::string file = path_ + "/" + kModelName;
  std::string bad = read_file(file);
  bad.back() = static_cast<char>(bad.back() ^ 1);
  File::create(file).write(bad);
  const std::string error = test::error_of([&] { train::verify(path_); });
  EXPECT_NE(error.find("the bytes of weight sum up to"), std::string::npos) << error;
  EXPECT_NE(error.find(digits(read_manifest(path_).model().tensors[0].checksum)), std::string::npos)
      << error;
  EXPECT_NE(error.find("take another checkpoint"), std::string::npos) << error;
}

// A file that belongs to another checkpoint is as good as damaged, even where its own manifest is at hand.
TEST_F(Damage, AFileOfAnotherCheckpoint) {
  other_.set(13);
  train::save(folder_ + "/other", {.step = 4}, other_.weight, other_);
  before_ = other_.all();
  draws_ = random::state();
  std::filesystem::copy_file(folder_ + "/other/" + kStateName, path_ + "/" + kStateName,
                             std::filesystem::copy_options::overwrite_existing);
  refused(kStateName, "state of another");
}

}  // namespace
}  // namespace ebb::train
