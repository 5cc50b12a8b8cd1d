// Texts that a language model makes while it is trained.
#include <gtest/gtest.h>

#include "ebb/base/files/file.hpp"
#include "ebb/train/run/event_record.hpp"
#include "ebb/train/sample_text.hpp"
#include "tests/error_of.hpp"
#include "tests/train/tales.hpp"

namespace ebb::train {
namespace {

using ebb::test::error_of;
using test::Folder;

TEST(Samples, AreMadeAndChangeNothing) {
  const Folder folder(test::in_memory());
  const std::string without = test::weights_after(
      test::gpt(folder, {"every.sample='never'", "train.ema=0.9"}), folder / "without");
  EXPECT_EQ(test::weights_after(test::gpt(folder, {"train.ema=0.9"}), folder / "with"), without);
  EXPECT_EQ(test::weights_after(test::gpt(folder, {"train.ema=0.9", "memory.budget=64MiB"}),
                                folder / "budget"),
            without);

  Job job(test::gpt(folder));
  const auto trainer = job.trainer(folder / "run", false);
  std::vector<std::int64_t> steps;
  std::vector<std::string> texts;
  trainer->on_sample = [&](std::int64_t step, const std::string& text) {
    steps.push_back(step);
    texts.push_back(text);
  };
  trainer->run();
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 8, 12}));
  for (const std::string& t : texts) {
    EXPECT_TRUE(t.starts_with("The "));
    EXPECT_EQ(t.size(), 28u) << "24 tokens of a byte";
  }
  EXPECT_HAS(test::content(folder / "run/log.txt"), "sample  step 8: The ");
  std::string events;
  for (const std::string& name : test::names_in(folder / "run"))
    if (name.starts_with("events.")) events += test::content(folder / ("run/" + name));
  EXPECT_HAS(events, texts[1]);
}

TEST(Samples, OfEveryKindOfLanguageModel) {
  const Folder folder(test::in_memory());
  test::put(folder / "tale.txt", test::tale(60));
  for (const char* kind : {"lstm", "gru", "gpt"}) {
    Job job(parse_config(std::string("[model]\nkind='") + kind +
                         "'\nwidth=16\ndepth=1\n[data]\nformat='text'\nwindow=16\npath='" +
                         (folder / "tale.txt") + "'\n"));
    const auto text = [&](std::uint64_t seed) {
      return sample_text(job.model, *job.reading.tokenizer, job.config.output, {.seed = seed});
    };
    EXPECT_EQ(text(3), text(3));
    EXPECT_NE(text(3), text(4));
    EXPECT_GE(text(3).size(), 200u);
  }
}

TEST(Samples, APromptThatTheModelCannotReadIsSaidBeforeTheFirstStep) {
  const Folder folder(test::in_memory());
  Job job(test::gpt(folder, {"output.prompt='%'"}));
  const auto trainer = job.trainer("", false);
  std::int64_t steps = 0;
  trainer->on_step = [&](std::int64_t, double) { ++steps; };
  EXPECT_HAS(error_of([&] { trainer->run(); }), "output.prompt: ");
  EXPECT_EQ(steps, 0);
}

TEST(Samples, WhereThereIsNoRoomThereAreNoneAndTheRunGoesOn) {
  const Folder folder(test::in_memory());
  Job job(test::gpt(folder, {"train.steps=4"}));
  const auto trainer = job.trainer(folder / "run", false);
  trainer->sample = [](std::int64_t, bool) -> std::string { throw OutOfMemory("no room"); };
  trainer->on_sample = [](std::int64_t, const std::string&) { FAIL(); };
  EXPECT_EQ(trainer->run().step, 4);
  EXPECT_HAS(test::content(folder / "run/log.txt"),
             "warning the budget has no room to make samples");
}

}  // namespace
}  // namespace ebb::train
