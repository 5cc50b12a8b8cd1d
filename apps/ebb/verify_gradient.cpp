#include "apps/ebb/verify_gradient.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"

namespace ebb::app {
namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr double kOfAll =
    0.01;  // a gradient that is zero but for rounding is nothing beside the others
constexpr double kBound = 1e-4, kBound16 = 0.03;
constexpr char kSlot[] = "momentum";

struct Apart {
  double most = 0, largest = 0;
};

}  // namespace

train::Config keeping_gradient(train::Config config) {
  const train::TrainConfig before = config.train;
  train::TrainConfig& t = config.train = {};
  t.batch = before.batch;
  t.steps = before.steps;
  t.seed = before.seed;
  t.loss = before.loss;
  t.huber_delta = before.huber_delta;
  t.label_smoothing = before.label_smoothing;
  t.precision = before.precision;
  t.threads = before.threads;
  t.optimizer = train::OptimizerKind::sgd;
  t.momentum = 0.5;  // the first step's momentum is its gradient
  t.lr = 1e-30;
  config.memory.optimizer_state = train::StateForm::f32;
  return config;
}

std::vector<Variable> kept_gradient(const train::Job& job) {
  std::vector<Variable> all;
  for (const Variable& v : job.optimizer->state())
    if (v.spec().dtype == DType::f32 && v.name().find(kSlot) != std::string::npos) all.push_back(v);
  if (all.empty()) throw Error("verify: the optimizer has kept no gradient");
  return all;
}

void each_piece(const std::vector<Variable>& all, const Piece& f) {
  std::array<std::byte, kBytes> piece;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t bytes = all[i].spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += kBytes) {
      const std::span part(piece.data(), std::min<std::uint64_t>(kBytes, bytes - at));
      all[i].read(part, at);
      f(part, i, all[i]);
    }
  }
}

double difference(const std::vector<Variable>& ours, const std::string& path) {
  File file = File::open(path);
  std::array<std::byte, kBytes> other;
  std::vector<Apart> apart(ours.size());
  each_piece(ours, [&](std::span<const std::byte> part, std::size_t i, const Variable& v) {
    const std::span theirs(other.data(), part.size());
    file.read(theirs);
    if (v.spec().dtype != DType::f32) return;
    for (std::size_t at = 0; at + 4 <= part.size(); at += 4) {
      float a, b;
      std::memcpy(&a, part.data() + at, 4);
      std::memcpy(&b, theirs.data() + at, 4);
      const double away = std::abs(static_cast<double>(a) - b);
      apart[i].most = std::isnan(away) ? INFINITY : std::max(apart[i].most, away);
      apart[i].largest = std::max(apart[i].largest, std::abs(static_cast<double>(b)));
    }
  });
  double all = 0, worst = 0;
  for (const Apart& a : apart) all = std::max(all, a.largest);
  for (const Apart& a : apart) {
    const double by = std::max(a.largest, kOfAll * all);
    worst = std::max(worst, a.most == 0 ? 0 : by > 0 ? a.most / by : INFINITY);
  }
  return worst;
}

void write_values(const std::vector<Variable>& all, const std::string& path) {
  File file = File::create(path);
  each_piece(all, [&](std::span<const std::byte> part, std::size_t, const Variable&) {
    file.write(part);
  });
}

double bound_of_difference(const train::Config& config) {
  return config.train.precision == train::Precision::f32 ? kBound : kBound16;
}

void spoil(std::vector<Variable> all, double share) {
  if (share == 0 || all.empty()) return;
  Variable& first = all.front();
  std::vector<float> values(static_cast<std::size_t>(first.spec().size()));
  first.read(std::as_writable_bytes(std::span(values)), 0);
  for (float& v : values) v *= static_cast<float>(1 + share);
  first.write(std::as_bytes(std::span(values)), 0);
}

}  // namespace ebb::app
