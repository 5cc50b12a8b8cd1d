// What a rank of the tests' jobs does: `dist_tests rank ROLE DIRECTORY`.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "ebb/base/file.hpp"
#include "ebb/base/process.hpp"
#include "ebb/dist/world.hpp"
#include "tests/dist/roles.hpp"

namespace ebb::test {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
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
    if (step == 3) write(fmt::format("{}/up-{}", folder, world.rank()), "");
  }
  if (world.first()) std::cout << "done" << std::endl;
}

// All of what ranks say to each other; the first prints it.
void talk(const std::string&) {
  dist::World world;
  std::string text = fmt::format("{} of {}\n", world.rank(), world.size());
  for (const std::string& v : world.gather(fmt::format("rank {}", world.rank()))) text += v + "\n";
  for (const int v : world.gather_values(world.rank() * world.rank()))
    text += fmt::format("{} ", v);
  text += world.broadcast(world.first() ? "of the first" : "not heard") + "\n";
  const bool all = world.agree(true), most = world.agree(world.rank() != 1);
  text += fmt::format("{} {}\n", all, most);
  std::string whole(40000, static_cast<char>('a' + world.rank()));
  std::size_t bytes = 0;
  for (const std::string& v : world.gather(whole)) bytes += v.size();
  text += fmt::format("{}\n", bytes);
  world.check_same("data", "the same");
  text += fmt::format("footprint {} set aside {}\n", process::resident(), world.footprint());
  if (world.first()) std::cout << text << std::flush;
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
      {"work", work},   {"talk", talk},         {"differ", differ},
      {"stray", stray}, {"early", leave_early}, {"twice", twice}};
  try {
    roles.at(arguments.at(0))(arguments.at(1));
    return 0;
  } catch (const dist::OnEveryRank& e) {
    if (e.speaks()) std::cerr << fmt::format("ebb: {}\n", e.what());
    return 2;
  } catch (const dist::RankLost&) {
    return 1;  // it was told
  } catch (const std::exception& e) {
    std::cerr << fmt::format("ebb: {}\n", e.what());
    return 2;
  }
}

}  // namespace ebb::test
