// Trains a classifier of digits and a model of characters with the tape, and shows where the bytes
// were.
#include <cstdio>
#include <string>

#include "train.hpp"
using namespace ebb;

struct Classifier {  // (batch, 784) → (batch, 10)
  nn::Dense up, mid, down;
  explicit Classifier(nn::Init init)
      : up(init / "up", 784, 512, {.activation = Activation::relu}),
        mid(init / "mid", 512, 128, {.activation = Activation::relu}),
        down(init / "down", 128, 10) {}
  Tensor operator()(const Tensor& x) const { return down(mid(up(x))); }
  void each(auto&& f) { f("up", up), f("mid", mid), f("down", down); }
};

struct Characters {  // ids (batch, time) → (batch, time, vocabulary); each place sees 13 before it
  nn::Embedding embed;
  nn::Conv1d near, far;
  nn::LayerNorm norm;
  nn::Dense out;
  Characters(nn::Init init, int vocabulary)
      : embed(init / "embed", vocabulary, 48),
        near(init / "near", 48, 128, 5, {.padding = {4, 0}}),
        far(init / "far", 128, 128, 3, {.padding = {8, 0}, .dilation = 4}),
        norm(init / "norm", 128),
        out(init / "out", 128, vocabulary) {}
  Tensor operator()(const Tensor& ids) const {
    return out(norm(gelu(far(gelu(near(embed(ids)))))));
  }
  void each(auto&& f) {
    f("embed", embed), f("near", near), f("far", far), f("norm", norm), f("out", out);
  }
};

std::string number(int n) {
  static const char* small[] = {"zero",    "one",     "two",       "three",    "four",
                                "five",    "six",     "seven",     "eight",    "nine",
                                "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static const char* tens[] = {"twenty", "thirty",  "forty",  "fifty",
                               "sixty",  "seventy", "eighty", "ninety"};
  if (n < 20) return small[n];
  return std::string(tens[n / 10 - 2]) + (n % 10 ? std::string(" ") + small[n % 10] : "");
}

int main() try {
  Classifier digits(nn::Init(1));
  train_model("digits    ", digits, data::digits(20000, 1).shuffle(1).batch(128).prefetch(2), 5,
              [&](const Batch& b) { return sparse_cross_entropy(digits(b["image"]), b["label"]); });
  const Batch unseen = data::digits(2000, 2).all();
  const Tensor right =
      equal(argmax(digits(unseen["image"]), -1), cast(unseen["label"], DType::i64));
  std::printf("digits      %.1f%% of 2000 unseen digits are right\n\n",
              100 * mean(cast(right, DType::f32)).item());

  std::string sums;
  for (int i = 0; i < 4000; ++i) {
    const int a = i * 7919 % 50, b = i * 104729 % 49;
    sums += number(a) + " and " + number(b) + " is " + number(a + b) + ". ";
  }
  const data::Text text = data::text(sums, {.window = 64});
  Characters characters(nn::Init(2), text.vocabulary.size());
  train_model(
      "characters", characters, text.windows.shuffle(1).batch(32).prefetch(2), 4,
      [&](const Batch& b) { return sparse_cross_entropy(characters(b["input"]), b["target"]); });

  std::cout << '\n' << ledger::table();
} catch (const Error& e) {
  std::cerr << "train_eager: " << e.what() << '\n';
  return 1;
}
