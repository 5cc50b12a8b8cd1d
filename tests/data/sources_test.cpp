#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/data/files/mnist.hpp"
#include "ebb/data/files/text.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

namespace fs = std::filesystem;

using test::error_of;

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

TEST(Digits, AreTheSameForASeedWhateverTheThreadsAndTheCount) {
  const int threads = pool::threads();
  pool::set_threads(1);
  const Batch one = data::digits(50, 3).all();
  pool::set_threads(3);
  const Batch three = data::digits(80, 3).rows(0, 50).all();
  pool::set_threads(threads);
  EXPECT_TRUE(same(one["image"], three["image"]));
  EXPECT_TRUE(same(one["label"], three["label"]));
  EXPECT_FALSE(same(one["image"], data::digits(50, 4).all()["image"]));
  EXPECT_EQ(one["image"].spec(), (Spec{{50, 784}, DType::f32}));
  EXPECT_EQ(one["label"].spec(), (Spec{{50}, DType::i32}));
  EXPECT_EQ(data::digits(0, 1).size(), 0);
  EXPECT_THROW(data::digits(-1, 1), Error);
}

// A real task: the nearest mean image gets most of the unseen digits, and by no means all.
TEST(Digits, CanBeLearntAndAreNotTrivial) {
  const Dataset all = data::digits(3000, 1);
  const Batch seen = all.rows(0, 2500).all(), unseen = all.rows(2500, 3000).all();
  std::vector<double> means(10 * 784, 0.0);
  std::vector<int> counts(10, 0);
  const auto images = seen["image"].data<float>();
  for (std::size_t i = 0; i < 2500; ++i) {
    const auto label = static_cast<std::size_t>(seen["label"].data<std::int32_t>()[i]);
    ++counts[label];
    for (std::size_t k = 0; k < 784; ++k) {
      ASSERT_TRUE(images[i * 784 + k] >= 0 && images[i * 784 + k] <= 1);
      means[label * 784 + k] += images[i * 784 + k];
    }
  }
  for (const int count : counts) EXPECT_NEAR(count, 250, 80) << "labels are even";
  int right = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    const float* image = unseen["image"].data<float>().data() + i * 784;
    double best = 1e30;
    int guess = -1;
    for (std::size_t label = 0; label < 10; ++label) {
      double distance = 0;
      for (std::size_t k = 0; k < 784; ++k) {
        const double d = image[k] - means[label * 784 + k] / counts[label];
        distance += d * d;
      }
      if (distance < best) {
        best = distance;
        guess = static_cast<int>(label);
      }
    }
    right += guess == unseen["label"].data<std::int32_t>()[i];
  }
  EXPECT_GT(right, 300);
  EXPECT_LT(right, 490);
  RecordProperty("right_of_500", right);
}

TEST(Text, WindowsAreFollowedByWhatFollows) {
  const auto [windows, vocabulary] = data::text("hello, hello world", {.window = 4});
  EXPECT_EQ(vocabulary.characters(), " ,dehlorw");
  EXPECT_EQ(windows.size(), 4);
  const Batch all = windows.all();
  EXPECT_EQ(all["input"].spec(), (Spec{{4, 4}, DType::i32}));
  EXPECT_EQ(vocabulary.decode(all["input"].data<std::int32_t>()), "hello, hello wor");
  EXPECT_EQ(vocabulary.decode(all["target"].data<std::int32_t>()), "ello, hello worl");
  const auto dense = data::text("abcd", {.window = 2, .stride = 1});
  EXPECT_EQ(dense.vocabulary.decode(dense.windows.all()["input"].data<std::int32_t>()), "abbc");
  EXPECT_EQ(dense.vocabulary.decode(dense.windows.all()["target"].data<std::int32_t>()), "bccd");
  EXPECT_EQ(data::text("abc", {.window = 2}).windows.size(), 1) << "just enough";
}

TEST(Text, EveryByteCanBeCoded) {
  std::string bytes;
  for (int i = 255; i >= 0; --i) bytes += static_cast<char>(i);
  const data::Vocabulary vocabulary(bytes);
  EXPECT_EQ(vocabulary.size(), 256);
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(bytes).data<std::int32_t>()), bytes);
}

TEST(Text, MistakesAreNamed) {
  EXPECT_HAS(error_of([] { data::text("abc", {.window = 3}); }),
             "3 characters are too few for a window of 3");
  EXPECT_HAS(error_of([] { data::text("", {}); }), "0 characters are too few");
  EXPECT_HAS(error_of([] { data::text("abc", {.window = 0}); }), "must be at least 1");
  EXPECT_HAS(error_of([] { data::text("abc", {.window = 1, .stride = -1}); }), "at least 1");
  const data::Vocabulary vocabulary("abc");
  EXPECT_HAS(error_of([&] { vocabulary.encode("abx"); }), "'x' at place 2 is not one of the 3");
  EXPECT_HAS(error_of([&] { vocabulary.encode("\n"); }), "with code 10 at place 0");
  EXPECT_HAS(error_of([&] { vocabulary.decode(std::vector<std::int32_t>{3}); }), "expected 0 to 2");
}

class MnistTest : public testing::Test {
 protected:
  MnistTest() {
    std::string name = (fs::temp_directory_path() / "ebb-idx-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~MnistTest() override { fs::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& content) {
    fs::remove(folder_ + "/" + name);
    File::create(folder_ + "/" + name).write(content);
    return folder_ + "/" + name;
  }
  std::string folder_;
};

const std::string kImages("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x00\xff\x33\x66", 20);
const std::string kLabels("\0\0\x08\x01\0\0\0\x02\x09\x00", 10);

TEST_F(MnistTest, ReadsTheFiles) {
  put("train-images-idx3-ubyte", kImages);
  put("train-labels-idx1-ubyte", kLabels);
  const Batch all = data::mnist(folder_).all();
  EXPECT_EQ(all["image"].spec(), (Spec{{2, 2}, DType::f32}));
  EXPECT_EQ(all["label"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{9, 0}));
  EXPECT_FLOAT_EQ(all["image"].data<float>()[1], 1.0f);
  EXPECT_FLOAT_EQ(all["image"].data<float>()[2], 0.2f);
  put("t10k-images-idx3-ubyte", kImages);
  put("t10k-labels-idx1-ubyte", kLabels);
  EXPECT_EQ(data::mnist(folder_, data::Split::test).size(), 2);
}

TEST_F(MnistTest, IdxOfOtherTypesIsBigEndian) {
  const Tensor i =
      data::load_idx(put("i", std::string("\0\0\x0c\x01\0\0\0\x01\xff\xff\xff\xfe", 12)));
  EXPECT_EQ(i.to_vector<std::int32_t>(), std::vector<std::int32_t>{-2});
  const Tensor f = data::load_idx(put("f", std::string("\0\0\x0d\x00\x3f\xc0\0\0", 8)));
  EXPECT_EQ(f.item<float>(), 1.5f);
  const Tensor d = data::load_idx(put("d", std::string("\0\0\x0e\x01\0\0\0\0", 8)));
  EXPECT_EQ(d.spec(), (Spec{{0}, DType::f64}));
}

TEST_F(MnistTest, RefusesDamagedFilesByName) {
  const auto load = [&](const std::string& content) {
    return error_of([&] { data::load_idx(put("a", content)); });
  };
  for (std::size_t n = 0; n < kImages.size(); ++n) {
    const std::string line = load(kImages.substr(0, n));
    EXPECT_HAS(line, "\"" + folder_ + "/a\"");
    EXPECT_HAS(line, n < 4    ? "too few for an idx file"
                     : n < 16 ? "ends inside its header"
                              : "needs a file of 20 bytes");
  }
  EXPECT_HAS(load(kImages + "x"), "u8(2, 1, 2) needs a file of 20 bytes, and this one has 21");
  EXPECT_HAS(load("\x1f\x8b\x08 packed"), "its packed data is damaged");
  EXPECT_HAS(load("text, not idx"), "does not start as an idx file does");
  EXPECT_HAS(load(std::string("\0\0\x0b\x00\0\0", 6)), "with a sign are not supported");
  EXPECT_HAS(load(std::string("\0\0\x07\x00\0", 5)), "element type 7 is unknown");
  EXPECT_HAS(load(std::string("\0\0\x08\x09\0", 5)), "it has 9 axes; at most 8");
  EXPECT_HAS(load(std::string("\0\0\x08\x03", 4) + std::string(12, '\xff')),
             "more elements than can be addressed");
  EXPECT_HAS(load(std::string("\0\0\x08\x01\xff\xff\xff\xff", 8)), "needs a file of 4294967303");
}

TEST_F(MnistTest, SaysWhatIsMissingOrDoesNotFit) {
  const auto load = [&] { return error_of([&] { data::mnist(folder_); }); };
  EXPECT_HAS(load(), "there is no \"" + folder_ + "/train-images-idx3-ubyte\"; put the four files");
  put("train-images-idx3-ubyte", kImages);
  EXPECT_HAS(load(), "train-labels-idx1-ubyte");
  put("train-labels-idx1-ubyte", kImages);
  EXPECT_HAS(load(), "expected labels, u8(count)");
  put("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x09", 9));
  EXPECT_HAS(load(), "it has 1 labels, and there are 2 images");
  put("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x02\x09\x0a", 10));
  EXPECT_HAS(load(), "it has a label 10; expected 0 to 9");
  put("train-images-idx3-ubyte", kLabels);
  EXPECT_HAS(load(), "expected images, u8(count, height, width)");
}

}  // namespace
}  // namespace ebb
