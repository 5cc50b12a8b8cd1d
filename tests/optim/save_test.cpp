// A run that is saved and taken up again has the bits of one that went on; a file that is not whole
// changes nothing; and whatever fails, nothing is lost.
#include "ebb/optim/save.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/optim/ema.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using file_faults::Call;
using file_faults::Fault;
using test::bytes;
using test::error_of;
using test::Mlp;

class Save : public testing::Test {
 protected:
  Save() {
    std::string name = "/var/tmp/ebb-save-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/run.safetensors";
  }
  ~Save() override {
    file_faults::clear();
    std::filesystem::remove_all(folder_);
  }
  std::string folder_, path_;
};

// Dropout, a schedule or a plateau, a clipped length, a loss scale, averages.
template <class Optimizer>
struct Run {
  Mlp model;
  Optimizer optimizer;
  optim::Ema ema;
  optim::Plateau plateau{1e-2, {.factor = 0.5, .patience = 1}};
  test::Example data = test::examples(24, 12, 5, 1);
  bool scheduled;

  Run(std::uint64_t seed, bool schedule, auto options)
      : model((random::seed(seed), nn::Init(seed))),
        optimizer(params(model), options),
        ema(params(model), 0.9),
        scheduled(schedule) {
    optimizer.clip_norm(0.5);
    if (schedule) optimizer.set_schedule(optim::warmup_cosine(1e-2, 3, 20));
  }
  void steps(int count, bool compiled) {
    const auto both = [&](const Tensor& x, const Tensor& y) {
      const Loss l = optimizer.minimize(sparse_cross_entropy(model(x), y));
      ema.update();
      return l;
    };
    const auto after = [&](const Loss& l) {
      if (!scheduled) optimizer.set_lr(plateau.observe(l.sum.template item<float>() > 1e9 ? 1 : 2));
    };
    if (compiled) {
      auto step = compile({{"x", data.x.spec()}, {"y", data.labels.spec()}}, {},
                          [&](const Batch& b) { return both(b["x"], b["y"]); });
      for (int i = 0; i < count; ++i) after(step({{"x", data.x}, {"y", data.labels}}));
    } else {
      for (int i = 0; i < count; ++i) {
        Tape tape;
        after(both(data.x, data.labels));
      }
    }
  }
  void save(const std::string& path) { ebb::save(path, model, optimizer, ema, plateau); }
  void load(const std::string& path) { ebb::load(path, model, optimizer, ema, plateau); }
  std::vector<std::vector<std::byte>> all() {
    std::vector<Variable> vs = variables(model);
    for (const auto& part : {optimizer.state(), ema.state(), plateau.state()})
      vs.insert(vs.end(), part.begin(), part.end());
    return bytes(vs);
  }
};

template <class Optimizer>
void resumes(const std::string& path, auto options) {
  for (const bool compiled : {false, true})
    for (const bool schedule : {false, true}) {
      SCOPED_TRACE(testing::Message() << compiled << schedule);
      Run<Optimizer> whole(3, schedule, options);
      whole.steps(4, compiled);
      whole.save(path);
      whole.steps(4, compiled);
      const auto expected = whole.all();
      const random::State draws = random::state();

      Run<Optimizer> later(99, schedule, options);  // other weights, other draws
      later.steps(1, compiled);
      later.load(path);
      later.steps(4, compiled);
      EXPECT_EQ(later.all(), expected);
      EXPECT_EQ(random::state(), draws);
      EXPECT_EQ(later.optimizer.steps(), whole.optimizer.steps());
      EXPECT_EQ(later.optimizer.lr(), whole.optimizer.lr());
    }
}

TEST_F(Save, AdamWGoesOn) {
  resumes<optim::AdamW>(path_, optim::AdamWOptions{.half = {.loss_scale = optim::dynamic}});
}
TEST_F(Save, AdamW8bitGoesOn) { resumes<optim::AdamW8bit>(path_, optim::AdamWOptions{}); }
TEST_F(Save, AdafactorGoesOn) { resumes<optim::Adafactor>(path_, optim::AdafactorOptions{}); }

using Small = Run<optim::AdamW>;
const optim::AdamWOptions kPlain{};

TEST_F(Save, SkippedStepsAndASetRateAreAmongIt) {
  Small run(1, false, kPlain);
  run.optimizer.set_lr(0.125);
  const Tensor infinite = Tensor::full({33, 12}, INFINITY, DType::f32);
  std::vector<Tensor> gradients(run.optimizer.params().size());
  gradients[0] = infinite;
  ASSERT_EQ(run.optimizer.params()[0].spec(), infinite.spec());
  run.optimizer.step(gradients);
  ASSERT_EQ(run.optimizer.skipped(), 1);
  run.save(path_);
  Small later(2, false, kPlain);
  later.load(path_);
  EXPECT_EQ(later.optimizer.skipped(), 1);
  EXPECT_EQ(later.optimizer.lr(), 0.125);
}

TEST_F(Save, TwoOfAKindKeepApart) {
  Mlp a((random::seed(1), nn::Init(1))), b(nn::Init(2));
  optim::Sgd first(params(a), {.lr = 0.5}), second(params(b), {.lr = 0.25});
  save(path_, a, first, b, second);
  Mlp c(nn::Init(3)), d(nn::Init(4));
  optim::Sgd third(params(c)), fourth(params(d));
  load(path_, c, third, d, fourth);
  EXPECT_EQ(bytes(params(c)), bytes(params(a)));
  EXPECT_EQ(bytes(params(d)), bytes(params(b)));
  EXPECT_EQ(third.lr(), 0.5);
  EXPECT_EQ(fourth.lr(), 0.25);
}

TEST_F(Save, OnlyTheModel) {
  Small run(1, true, kPlain);
  run.steps(2, false);
  run.save(path_);
  const random::State draws = random::state();
  Mlp model(nn::Init(7));
  EXPECT_NE(error_of([&] { load(path_, model); }).find("load_only"), std::string::npos);
  EXPECT_NE(bytes(params(model)), bytes(params(run.model)));
  load_only(path_, model);
  EXPECT_EQ(bytes(params(model)), bytes(params(run.model)));
  EXPECT_EQ(random::state(), draws);
}

TEST_F(Save, WhatDoesNotFitIsRefusedAndChangesNothing) {
  Small run(1, true, kPlain), other(2, true, kPlain);
  run.steps(1, false);
  other.steps(2, false);
  run.save(path_);
  const auto before = other.all();
  const random::State draws = random::state();
  const std::string good = read_file(path_);
  const auto refused = [&](const std::string& content, const std::string& says) {
    File::create(path_).write(content);
    const std::string error = error_of([&] { other.load(path_); });
    EXPECT_NE(error.find(says), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    EXPECT_EQ(other.all(), before) << says;
    EXPECT_EQ(random::state(), draws);
  };
  refused("", "too few");
  refused("a text, and no tensors at all", "no .safetensors file");
  for (const std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{100}})
    refused(good.substr(0, size), "cannot load");
  refused(good + "x", "damaged");
  // Any byte of it.
  const std::size_t front =
      8 + static_cast<unsigned char>(good[0]) + 256 * static_cast<unsigned char>(good[1]);
  for (std::size_t at = front; at < good.size(); at += 997) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    refused(bad, "damaged");
  }
  for (std::size_t at = 0; at < front; at += 13) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    refused(bad, "cannot load");
  }
  File::create(path_).write(good);
  Mlp wide(nn::Init(1));
  wide.down = nn::Dense(nn::Init(1) / "down", 17, 6);
  EXPECT_NE(error_of([&] {
              load_only(path_, wide);
            }).find("down.weight is f32(5, 17) in it, and f32(6, 17)"),
            std::string::npos);
  nn::Dense missing(nn::Init(1) / "sideways", 17, 6);
  EXPECT_NE(error_of([&] { load_only(path_, missing); }).find("it has no sideways.weight"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_only(folder_ + "/none", wide); }).find("none"), std::string::npos);
  other.load(path_);
  EXPECT_EQ(other.all(), run.all());
}

// A model of which more lies in memory than may be set aside there.
struct Wide {
  nn::Dense up, down;
  explicit Wide(std::uint64_t seed)
      : up(nn::Init(seed) / "up", 500, 1000), down(nn::Init(seed) / "down", 1000, 700) {}
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

TEST_F(Save, TakesAMebibyteOrTwo) {
  Wide model(1);
  optim::Sgd adam(params(model));
  for (const auto& part : {params(model), adam.state()})
    for (const Variable& v : part) v.value();
  const std::uint64_t live = ledger::total().live;
  for (const bool in : {false, true}) {
    ledger::reset_peak();
    in ? load(path_, model, adam) : save(path_, model, adam);
    EXPECT_LE(ledger::total().peak, live + (std::uint64_t{5} << 19)) << in;
  }
}

// Every file call and every allocation fails in turn.
TEST_F(Save, NothingIsLostWhateverFails) {
  Wide first(1), second(2);
  optim::Sgd adam(params(first)), other(params(second));
  for (const auto& part : {params(first), adam.state(), params(second), other.state()})
    for (const Variable& v : part) v.value();
  const auto all = [](Wide& model, optim::Sgd& optimizer) {
    std::vector<Variable> vs = params(model);
    for (const Variable& v : optimizer.state()) vs.push_back(v);
    return bytes(vs);
  };
  const auto a = all(first, adam), b = all(second, other);
  save(path_, first, adam);
  // `act` fails at every point; `holds` is what is true after each failure.
  const auto at_every_point = [&](auto act, auto holds) {
    for (const Call call : {Call::open, Call::read, Call::write, Call::sync, Call::close,
                            Call::rename, Call::reserve})
      for (std::uint64_t nth = 1;; ++nth) {
        file_faults::fail(call, nth, Fault::eio);
        bool failed = true;
        try {
          act();
          failed = false;
        } catch (const FileError&) {
        }
        file_faults::clear();
        if (!failed) break;
        holds();
      }
    for (std::uint64_t nth = 1;; ++nth) {
      const memory::FailTake fail(nth);
      bool failed = true;
      try {
        act();
        failed = false;
      } catch (const OutOfMemory&) {
      }
      if (!failed) break;
      holds();
    }
  };
  at_every_point(
      [&] {
        load(path_, second, other);
        // It went through: as it was, for the next.
        const std::vector<Variable> vs = [&] {
          std::vector<Variable> list = params(second);
          for (const Variable& v : other.state()) list.push_back(v);
          return list;
        }();
        file_faults::clear();
        EXPECT_EQ(all(second, other), a);
        for (std::size_t i = 0; i < vs.size(); ++i) Variable(vs[i]).write(b[i], 0);
      },
      [&] { EXPECT_EQ(all(second, other), b); });
  at_every_point([&] { save(path_, second, other); },
                 [&] {
                   Wide read(3);
                   optim::Sgd state(params(read));
                   load(path_, read, state);  // the old file or the new one, whole
                   const auto found = all(read, state);
                   EXPECT_TRUE(found == a || found == b);
                 });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "left behind";
}

TEST_F(Save, NotInsideACompiledFunction) {
  Mlp model(nn::Init(1));
  const std::string error = error_of([&] {
    compile({{"x", Spec{{2, 12}, DType::f32}}}, {}, [&](const Batch& b) {
      save(path_, model);
      return model(b["x"]);
    });
  });
  EXPECT_NE(error.find("between steps"), std::string::npos) << error;
}

TEST_F(Save, AveragesInTheWeightsPlaceAreNotSaved) {
  Small run(1, true, kPlain);
  run.steps(1, false);
  const auto applied = run.ema.apply();
  EXPECT_NE(error_of([&] { run.save(path_); }).find("swap them back"), std::string::npos);
}

TEST_F(Save, HeadersOfOtherToolsAreRead) {
  const std::string header =
      R"( {"b\u00e9\"":{"shape":[2, 3],"data_offsets":[4,28],"dtype":"F32"}, )"
      R"("__metadata__":{"format":"pt"},"a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string(28, '\1');
  File::create(path_).write(file);
  File open = File::open(path_);
  const Safetensors found = read_safetensors_front(open);
  ASSERT_EQ(found.tensors.size(), 2u);
  EXPECT_EQ(found.tensors[0].name, "a");
  EXPECT_EQ(found.tensors[1].name, "b\xc3\xa9\"");
  EXPECT_EQ(found.tensors[1].spec, (Spec{{2, 3}, DType::f32}));
  Variable a("a", Tensor::zeros({}, DType::i32));
  load_only(path_, a);
  EXPECT_EQ(a.value().item<std::int32_t>(), 0x01010101);
  for (const char* bad :
       {"{", "{}x", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}})",
        R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":[7],"data_offsets":[0,28]},"a":{}})"}) {
    std::string text(8, '\0');
    text[0] = static_cast<char>(std::strlen(bad));
    File::create(path_).write(text + bad + std::string(28, '\1'));
    EXPECT_NE(error_of([&] { load_only(path_, a); }).find("cannot load"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace ebb
