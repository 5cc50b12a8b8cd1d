// Commands that several processes run together: --processes, --trace, and what each of them does.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/ebb/console.hpp"
#include "ebb/dist/world.hpp"
#include "ebb/train/job.hpp"
#include "ebb/train/run/timeline_file.hpp"

namespace ebb::app {

void add_processes(CLI::App& command, int& processes);

// Where so many are asked for and no launcher has started this one: shows the line, and becomes mpirun with it. What
// can be told of the command before, `check` throws.
void start_processes(const char* command, int processes,
                     const std::function<void()>& check = nullptr);

// That this machine holds so many; that there is work for each of them, in every batch but a last one; and that all
// find the run's directory, with this config in it, as the first one has made it.
void check_room(const char* command, int processes);
void check_rows(const char* command, int processes, std::int64_t batch, const char* what);
void check_rows(const char* command, const dist::World& world, const train::Job& job);
void check_seen(dist::World& world, const std::string& directory, const std::string& config);

// The first one does it, for all.
template <class F>
void by_first(dist::World& world, const char* what, F&& f) {
  together(&world, what, [&] {
    if (world.first()) f();
  });
}

// What a command does in a world, be it of one; `f` gives the exit code.
template <class F>
void in_world(const char* command, int processes, const std::function<train::Config()>& config,
              F&& f) {
  start_processes(command, processes,
                  [&] { check_rows(command, processes, config().train.batch, "train.batch"); });
  int code = 0;
  {
    dist::World world;
    if (!world.first()) set_quiet(true);
    code = f(world);
  }
  if (code) throw Exit{code};
}

void add_trace(CLI::App& command, std::string& path);
// Before anything is compiled, so that what it holds is counted; null where it is not asked for.
std::unique_ptr<train::TimelineFile> timeline_in(const std::string& path, dist::World& world);

}  // namespace ebb::app
