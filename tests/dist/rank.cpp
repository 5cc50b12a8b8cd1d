// What a rank of the tests' jobs does: `dist_tests rank ROLE DIRECTORY`.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "ebb/base/files/file.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/dist/post.hpp"
#include "ebb/dist/world.hpp"
#include "ebb/ebb.hpp"
#include "tests/dist/roles.hpp"

namespace ebb::test {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

std::string text(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

// Steps of some 5 ms, all together, until told otherwise: a minute at most.
void work(const std::string& folder) {
  dist::World world;
  write(fmt::format("{}/rank-{}", folder, world.rank()), fmt::format("{}", getpid()));
  world.expect_step(number("EBB_TEST_STEP_MS", 0) * 1e-3);
  const auto told = [&](const char* what) {
    return file_exists(fmt::format("{}/{}-{}", folder, what, world.rank()));
  };
  const int most = number("EBB_TEST_STEPS", 12000);
  for (int step = 0; step < most; ++step) {
    world.set_step(step);
    if (told("throw")) throw Error("disk full, say");
    if (told("exit")) std::exit(5);  // NOLINT(concurrency-mt-unsafe)
    while (told("spin")) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    world.barrier();
    if (step == 40) write(fmt::format("{}/up-{}", folder, world.rank()), "");
  }
  if (world.first()) std::cout << "done" << std::endl;
}

// All of what ranks say to each other; the first prints it.
void talk(const std::string&) {
  dist::World world;
  std::string said = fmt::format("{} of {}\n", world.rank(), world.size());
  for (const std::string& v : world.gather(fmt::format("rank {}", world.rank()))) said += v + "\n";
  for (const int v : world.gather_values(world.rank() * world.rank()))
    said += fmt::format("{} ", v);
  said += world.broadcast(world.first() ? "of the first" : "not heard") + "\n";
  const bool all = world.agree(true), most = world.agree(world.rank() != 1);
  said += fmt::format("{} {}\n", all, most);
  std::string whole(40000, static_cast<char>('a' + world.rank()));
  std::size_t bytes = 0;
  for (const std::string& v : world.gather(whole)) bytes += v.size();
  said += fmt::format("{}\n", bytes);
  world.check_same("data", "the same");
  said += fmt::format("footprint {} set aside {}\n", process::resident(), world.footprint());
  if (world.first()) std::cout << said << std::flush;
}

// What the library for messages adds to a process: before, when it is open, after much was sent.
void footprint(const std::string&) {
  runtime::reserve();
  const std::uint64_t before = process::resident();
  dist::World world;
  const std::uint64_t open = process::resident();
  runtime::drop_code();  // as all that measures does
  std::uint64_t most = process::resident();
  {
    const std::size_t bytes = 4 << 20;
    const memory::Buffer out(bytes, "out", Category::data), in(bytes, "in", Category::data);
    std::fill_n(out.data(), bytes, std::byte{1});
    std::fill_n(in.data(), bytes, std::byte{2});
    const std::uint64_t held = process::resident();
    for (const std::size_t size : {std::size_t{64}, std::size_t{4096}, std::size_t{100000}, bytes})
      for (int i = 0; i < 20; ++i) {
        dist::Message to = dist::Message::to({(world.rank() + 1) % world.size(), Channel::data, i},
                                             {out.data(), size});
        dist::Message from = dist::Message::from(
            {(world.rank() + world.size() - 1) % world.size(), Channel::data, i},
            {in.data(), size});
        world.post()->start(from);
        world.post()->start(to);
        world.post()->wait(to);
        world.post()->wait(from);
      }
    most += process::resident() - held;
  }
  const auto all = world.gather_values(std::array{before, open, most});
  if (!world.first()) return;
  for (const auto& [at_first, then, last] : all)
    std::cout << then - at_first << " " << last - at_first << " " << world.footprint() << "\n";
}

struct Mlp {
  nn::Dense up, down;
  void each(auto&& f) { f("up", up), f("down", down); }
};

// Trains with the others in a budget, in a group of its own that the kernel limits to it; it enters before
// anything of it is in memory. Without a budget: names the smallest.
void budget(const std::string& folder) {
  const std::string door = text("EBB_TEST_DOOR_" + text("OMPI_COMM_WORLD_RANK"));
  if (!door.empty() && text("EBB_TEST_INSIDE").empty()) {
    std::ofstream(door) << "0" << std::flush;
    setenv("EBB_TEST_INSIDE", "1", 1);
    execl("/proc/self/exe", "dist_tests", "rank", "budget", folder.c_str(), nullptr);
    std::abort();
  }
  dist::World world;
  const std::uint64_t bytes = std::stoull("0" + text("EBB_TEST_BUDGET"));
  Mlp model{{nn::Init(1) / "up", 784, 256}, {nn::Init(1) / "down", 256, 10}};
  optim::AdamW adam(params(model), {.lr = 1e-3});
  const Dataset data = data::digits(512, 1).shuffle(1).batch(64).part(world);
  CompileOptions options{.world = &world};
  if (bytes) options.memory = ByteSize{bytes};
  auto step = compile(data.spec(), options, [&](const Batch& b) {
    return adam.minimize(sparse_cross_entropy(model.down(relu(model.up(b["image"]))), b["label"]));
  });
  for (const Batch& b : data.epochs(3)) step(b);
  const auto all = world.gather_values(
      std::array<std::uint64_t, 2>{smallest_budget(), process::peak_resident()});
  if (!world.first()) return;
  for (const auto& [smallest, peak] : all) std::cout << smallest << " " << peak << "\n";
}

void differ(const std::string&) {
  dist::World world;
  world.check_same("config", world.rank() < 2 ? "lr = 0.1" : "lr = 0.2");
}

void stray(const std::string&) {
  dist::World world;
  if (world.rank() == 1) (void)world.gather("x");
  world.barrier();
  world.barrier();
}

void leave_early(const std::string&) {
  dist::World world;
  if (world.rank() != 1) world.agree(true);
}

void twice(const std::string&) {
  { dist::World world; }
  dist::World again;
}

}  // namespace

int rank_main(const std::vector<std::string>& arguments) {
  const std::map<std::string, std::function<void(const std::string&)>> roles = {
      {"work", work},         {"talk", talk},     {"footprint", footprint},
      {"budget", budget},     {"differ", differ}, {"stray", stray},
      {"early", leave_early}, {"twice", twice},   {"train", train_role}};
  try {
    roles.at(arguments.at(0))(arguments.at(1));
    return 0;
  } catch (const dist::OnEveryRank& e) {
    if (e.speaks()) std::cerr << fmt::format("ebb: {}\n", e.what());
    return 2;
  } catch (const dist::RankLost&) {
    return 1;  // it was told
  } catch (const std::exception& e) {
    if (!dist::told_by_another()) std::cerr << fmt::format("ebb: {}\n", e.what());
    return 2;
  }
}

}  // namespace ebb::test
