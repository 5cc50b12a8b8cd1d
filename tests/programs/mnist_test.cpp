// Sixty thousand images of the size of MNIST's, in the files in which these are published, train in a process
// of 48 MiB: less than the images have bytes, with all that the process is.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "ebb/base/bytes.hpp"
#include "ebb/base/files/file.hpp"
#include "tests/programs/program.hpp"

namespace ebb::programs {
namespace {

constexpr std::int64_t kImages = 60'000, kPixels = 784;

class Mnist : public testing::TestWithParam<bool> {
 protected:
  Mnist() {
    std::string name = temporary_folder() + "/ebb-mnist-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Mnist() override { std::filesystem::remove_all(folder_); }

  // Mostly black, with a bright part that depends on the label: about as well packed as digits.
  static std::string image(std::int64_t i) {
    std::string pixels(kPixels, '\0');
    for (std::int64_t k = 0; k < 120; ++k)
      pixels[static_cast<std::size_t>(i % 10 * 60 + k)] = static_cast<char>(i * k * 31 + k);
    return pixels;
  }
  void put(const std::string& name, const std::string& front, bool packed,
           const std::function<std::string(std::int64_t)>& row) const {
    const std::string path = folder_ + "/" + name + (packed ? ".gz" : "");
    const gzFile file = gzopen(path.c_str(), packed ? "wb1" : "wbT");  // T: as it is
    ASSERT_NE(file, nullptr);
    gzwrite(file, front.data(), static_cast<unsigned>(front.size()));
    for (std::int64_t i = 0; i < kImages; ++i) {
      const std::string bytes = row(i);
      gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    }
    ASSERT_EQ(gzclose(file), Z_OK);
  }

  std::string folder_;
};

TEST_P(Mnist, TrainsIn48MiB) {
  using namespace std::string_literals;
  put("train-images-idx3-ubyte", "\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c"s, GetParam(),
      image);
  put("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\xea\x60"s, GetParam(),
      [](std::int64_t i) { return std::string(1, static_cast<char>(i % 10)); });
  Program p;
  p.model = "mnist:" + folder_;
  p.rows = kImages;
  p.batch = 512;
  p.epochs = 1;
  p.prefetch = 2;
  const Outcome free = run(p);
  ASSERT_TRUE(free.good()) << free.error;
  std::filesystem::remove_all(folder_ + "/cache");  // a .gz is unpacked within the limit, too
  p.budget = (48_MiB).bytes;
  const Outcome o = run(p);
  if (!o.unlimited.empty()) std::printf("not limited by the kernel: %s\n", o.unlimited.c_str());
  EXPECT_FALSE(o.killed) << line(p);
  EXPECT_EQ(o.error, "") << "after " << o.steps << " steps\n" << line(p);
  EXPECT_LE(o.peak, p.budget) << o.plan;
  EXPECT_EQ(o.steps, 118);
  EXPECT_EQ(o.digest, free.digest) << o.plan;
  std::printf("peak %s of 48 MiB; the smallest budget is %s\n", to_string(ByteSize{o.peak}).c_str(),
              to_string(ByteSize{o.minimum}).c_str());
}

INSTANTIATE_TEST_SUITE_P(Files, Mnist, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "gz" : "plain"; });

}  // namespace
}  // namespace ebb::programs
