#include "apps/ebb/processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/sha256.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/open.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::app {
namespace {

// The words of this process's command line.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (words.empty() || length <= 0)
    throw Error("how this program was started cannot be found out (/proc/self)");
  words[0] = std::string(program, static_cast<std::size_t>(length));
  return words;
}

}  // namespace

void add_processes(CLI::App& command, int& processes) {
  command
      .add_option(
          "--processes", processes,
          "so many share every step on this machine, started by mpirun; the bits are those of "
          "one. For several machines, start it by mpirun or srun yourself")
      ->type_name(value::kNumber)
      ->check(number_from(1, 1024));
}

void check_room(const char* command, int processes) {
  const process::Available all = process::available();
  const auto least = [](int count) { return train::kAtStart + dist::World::footprint_of(count); };
  const auto fits = [&](int count) {
    return static_cast<std::uint64_t>(count) * least(count) <= all.bytes;
  };
  if (fits(processes)) return;
  int most = processes;
  while (most > 1 && !fits(most)) --most;
  throw Error(
      fmt::format("{}: each of {} processes takes {}, whatever it trains, and {} are there in all "
                  "({}); --processes {} is the most",
                  command, processes, to_string(ByteSize{least(processes)}),
                  to_string(ByteSize{all.bytes}), all.source, most));
}

void check_rows(const char* command, int processes, std::int64_t batch, const char* what) {
  if (processes <= batch) return;
  throw Error(
      fmt::format("{}: {} processes share batches of {} examples ({}), so that {} of them would "
                  "never have one; start {} at most",
                  command, processes, batch, what, processes - batch, batch));
}

void check_rows(const char* command, const dist::World& world, const train::Job& job) {
  const std::int64_t batch = job.config.train.batch, rows = job.data->reading.facts.rows;
  check_rows(command, world.size(), batch, "train.batch");
  if (rows > 0) check_rows(command, world.size(), std::min(batch, rows), "the rows there are");
}

void check_seen(dist::World& world, const std::string& directory, const std::string& config) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(config)));
  const std::string expected = world.broadcast(sum.hex());
  const auto seen = [&] {
    try {
      Sha256 found;
      const std::string text = read_file(train::RunDirectory::open(directory).config());
      found.add(std::as_bytes(std::span(text)));
      return found.hex() == expected;
    } catch (const Error&) {
      return false;
    }
  };
  // Names come late over some networks.
  together(&world, "a look at the run's directory", [&] {
    for (int i = 0; !seen(); ++i) {
      if (i == 20)
        throw Error(fmt::format(
            "{} is not here, where rank 0 on {} has made it; a run lies in a directory that "
            "all hosts share (--out)",
            directory, world.host(0)));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
}

std::unique_ptr<train::TimelineFile> timeline_in(const std::string& path, dist::World& world) {
  world.check_same("file of --trace", path);
  if (path.empty()) return nullptr;
  return std::make_unique<train::TimelineFile>(path, world, world.host());
}

void add_trace(CLI::App& command, std::string& path) {
  command
      .add_option(
          "--trace", path,
          "a file for Perfetto or chrome://tracing: what all processes have done last, call "
          "by call and message by message")
      ->type_name(value::kFile);
}

void start_processes(const char* command, int processes, const std::function<void()>& check) {
  const auto as = dist::started();
  if (as && processes && processes != as->size)
    throw dist::OnEveryRank(
        fmt::format("{}: {} has started {} processes, and --processes says {}; leave one of "
                    "them out",
                    command, as->by, as->size, processes),
        as->rank == 0);
  if (as || processes < 2) return;
  if (dist::under_mpirun())
    throw Error(
        fmt::format("{}: mpirun has started this process, and --processes {} would start others; "
                    "leave it out, and say mpirun -np {}",
                    command, processes, processes));
  check_room(command, processes);
  if (check) check();
  dist::Launch launch{processes, 0, {}};
  const std::vector<std::string> words = own_words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--processes")
      ++i;  // and its number
    else if (!words[i].starts_with("--processes="))
      launch.program.push_back(words[i]);
  }
  const auto line = dist::mpirun_line(launch);
  if (!quiet()) print(wrapped(dist::shell_line(line), 2) + "\n\n");
  dist::become(line);
}

}  // namespace ebb::app
