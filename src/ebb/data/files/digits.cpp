#include "ebb/data/files/digits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/rng.hpp"

namespace ebb::data {
namespace {

constexpr int kSide = 28, kPixels = kSide * kSide;
constexpr std::size_t kMaxPoints = 16;

struct Point {
  float x, y;
};

// The path of the pen, in a unit square with y downwards.
constexpr Point kZero[] = {{.50f, .08f}, {.30f, .16f}, {.21f, .38f}, {.21f, .62f},
                           {.30f, .84f}, {.50f, .92f}, {.70f, .84f}, {.79f, .62f},
                           {.79f, .38f}, {.70f, .16f}, {.50f, .08f}};
constexpr Point kOne[] = {{.34f, .26f}, {.55f, .08f}, {.55f, .92f}};
constexpr Point kTwo[] = {{.22f, .30f}, {.30f, .14f}, {.50f, .08f}, {.70f, .16f},
                          {.74f, .33f}, {.60f, .55f}, {.20f, .91f}, {.80f, .91f}};
constexpr Point kThree[] = {{.25f, .15f}, {.50f, .08f}, {.72f, .20f}, {.70f, .38f}, {.46f, .47f},
                            {.72f, .58f}, {.76f, .76f}, {.55f, .92f}, {.22f, .85f}};
constexpr Point kFour[] = {{.62f, .92f}, {.62f, .08f}, {.19f, .64f}, {.82f, .64f}};
constexpr Point kFive[] = {{.75f, .09f}, {.30f, .09f}, {.27f, .46f}, {.50f, .40f},
                           {.73f, .53f}, {.74f, .75f}, {.52f, .92f}, {.24f, .84f}};
constexpr Point kSix[] = {{.68f, .08f}, {.42f, .28f}, {.26f, .60f}, {.32f, .84f}, {.52f, .92f},
                          {.72f, .80f}, {.70f, .60f}, {.50f, .51f}, {.29f, .63f}};
constexpr Point kSeven[] = {{.20f, .09f}, {.80f, .09f}, {.43f, .92f}};
constexpr Point kEight[] = {{.50f, .48f}, {.30f, .36f}, {.30f, .18f}, {.50f, .08f}, {.70f, .18f},
                            {.70f, .36f}, {.50f, .48f}, {.26f, .64f}, {.28f, .84f}, {.50f, .92f},
                            {.72f, .84f}, {.74f, .64f}, {.50f, .48f}};
constexpr Point kNine[] = {{.71f, .37f}, {.50f, .48f}, {.29f, .38f}, {.29f, .18f}, {.50f, .08f},
                           {.71f, .18f}, {.71f, .40f}, {.65f, .68f}, {.48f, .92f}};
constexpr std::array<std::span<const Point>, 10> kPaths = {kZero, kOne, kTwo,   kThree, kFour,
                                                           kFive, kSix, kSeven, kEight, kNine};

// The draws of one digit, in the order they are asked for.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t digit) : key_{seed, digit} {}
  std::uint32_t bits() { return draw(key_, kStream, position_++); }
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 8) * 0x1p-24f;
  }

 private:
  static constexpr std::uint64_t kStream = 0x646967697473;
  Key key_;
  std::uint64_t position_ = 0;
};

// A straight part of the path, ready to be measured against.
struct Stroke {
  Stroke() = default;
  Stroke(Point a, Point b)
      : from(a), dx(b.x - a.x), dy(b.y - a.y), per_square(1 / (dx * dx + dy * dy)) {}
  float squared_distance(Point p) const {
    const float x = p.x - from.x, y = p.y - from.y;
    const float t = std::clamp((x * dx + y * dy) * per_square, 0.0f, 1.0f);
    const float ex = x - t * dx, ey = y - t * dy;
    return ex * ex + ey * ey;
  }
  Point from{};
  float dx = 0, dy = 0, per_square = 0;
};

std::int32_t draw_digit(std::uint64_t seed, std::int64_t number, std::uint8_t* pixels) {
  Draw random(seed, static_cast<std::uint64_t>(number));
  const auto label = static_cast<std::size_t>(std::uint64_t{random.bits()} * 10 >> 32);
  const float angle = random.between(-0.26f, 0.26f), slant = random.between(-0.3f, 0.3f);
  const float width = random.between(14, 20), height = random.between(17, 22);
  const float right = random.between(-2.5f, 2.5f), down = random.between(-2, 2);
  const float pen = random.between(0.8f, 1.7f), ink = random.between(190, 255);
  const float noise = random.between(4, 28);

  const float cosine = std::cos(angle), sine = std::sin(angle);
  Point path[kMaxPoints];
  const std::span<const Point> model = kPaths[label];
  for (std::size_t i = 0; i < model.size(); ++i) {
    const float y = (model[i].y - 0.5f + random.between(-0.03f, 0.03f)) * height;
    const float x = (model[i].x - 0.5f + random.between(-0.03f, 0.03f)) * width - slant * y;
    path[i] = {14 + right + cosine * x - sine * y, 14 + down + sine * x + cosine * y};
  }
  Stroke strokes[kMaxPoints];
  const std::size_t count = model.size() - 1;
  for (std::size_t i = 0; i < count; ++i) strokes[i] = {path[i], path[i + 1]};

  std::uint32_t grains = 0;  // noise, a byte for each of four pixels
  for (int k = 0; k < kPixels; ++k) {
    grains = k % 4 == 0 ? random.bits() : grains >> 8;
    const Point p{static_cast<float>(k % kSide) + 0.5f, static_cast<float>(k / kSide) + 0.5f};
    float nearest = 1e4f;
    for (std::size_t i = 0; i < count; ++i)
      nearest = std::min(nearest, strokes[i].squared_distance(p));
    const float covered = std::clamp(pen + 0.5f - std::sqrt(nearest), 0.0f, 1.0f);
    const float grain = (static_cast<float>(grains & 0xff) - 127.5f) / 127.5f;
    const float value = covered * ink + noise * grain;
    pixels[k] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }
  return static_cast<std::int32_t>(label);
}

}  // namespace

Dataset digits(std::int64_t count, std::uint64_t seed) {
  if (count < 0) throw Error(fmt::format("digits: {}; expected a count of 0 or more", count));
  Tensor images = Tensor::uninitialized({{count, kPixels}, DType::u8}, "digits", Category::data);
  Tensor labels = Tensor::uninitialized({{count}, DType::i32}, "digits", Category::data);
  auto* pixels = reinterpret_cast<std::uint8_t*>(images.bytes());
  auto* answers = reinterpret_cast<std::int32_t*>(labels.bytes());
  pool::parallel_for(static_cast<std::size_t>(count), 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      answers[i] = draw_digit(seed, static_cast<std::int64_t>(i), pixels + i * kPixels);
  });
  return Dataset::of({{"image", images}, {"label", labels}}).scale("image", 1.0f / 255);
}

}  // namespace ebb::data
