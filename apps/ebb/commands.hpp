// The commands of `ebb`: each adds itself to the command line, with its help and examples.
//
// A description is a line, and behind an empty line what else there is to know; the footer is a list of
// examples. Help, the man page and completions are made of that (describe.hpp).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/memory/budget.hpp"
#include "ebb/train/job.hpp"

namespace ebb::app {

void add_init(CLI::App& app);  // and config
void add_plan(CLI::App& app);
void add_train(CLI::App& app);  // and resume
void add_verify(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);
void add_grad(CLI::App& app);
void add_generate(CLI::App& app);
void add_vocab(CLI::App& app);
void add_inspect(CLI::App& app);
void add_doctor(CLI::App& app);
void add_about(CLI::App& app);  // help, completion, man

// The groups of the list of commands.
namespace group {
inline constexpr char kBegin[] = "begin", kTrain[] = "train", kUse[] = "use what was trained",
                      kMore[] = "more";
}  // namespace group

// What several commands take.
struct ConfigFlags {
  std::string config, memory;
  std::vector<std::string> set;
  void add(CLI::App& command);
  std::vector<std::string> overrides() const;  // --memory among them
  train::Config load() const;
};
// For --set. Bytes may be said without a unit, as plans print them.
std::string budget_override(const std::string& memory);
void add_memory(CLI::App& command, std::string& memory);
void add_run(CLI::App& command, std::string& directory);
void add_json(CLI::App& command, bool& json);
void add_quiet(CLI::App& command);
CLI::Validator number_from(double least,
                           double most = 0);  // most 0: no bound; whole ones by their type

// Says so where the budget is more than the process may hold: it would be killed, not refused.
void mind_limit(const train::Config& config);

// Of a plan as text: whether the data is in memory or in its files, and how many bytes it takes there.
std::string place_of_rows(const train::Job& job);

// Refuses to write over what is read, also by another of its names.
void check_out(const char* command, const std::string& in, const std::string& out);

}  // namespace ebb::app
