#include <fmt/format.h>
#include <filesystem>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/process.hpp"

namespace ebb::app {

void ConfigFlags::add(CLI::App& command) {
  command.add_option("config", config, "a config file (ebb init writes one)")
      ->required()
      ->type_name(value::kConfig);
  add_memory(command, memory);
  command
      .add_option("--set", set,
                  "section.key=value in place of what the file says, such as train.lr=0.01; may be "
                  "repeated (ebb config keys lists the keys)")
      ->allow_extra_args(false)
      ->type_name(value::kSetting);
}

std::vector<std::string> ConfigFlags::overrides() const {
  std::vector<std::string> all = set;
  if (!memory.empty()) all.push_back(budget_override(memory));
  return all;
}

std::string budget_override(const std::string& memory) {
  const bool plain = memory.find_first_not_of("0123456789") == std::string::npos;
  return "memory.budget=" + memory + (plain ? "B" : "");
}

train::Config ConfigFlags::load() const { return train::load_config(config, overrides()); }

namespace {

// Why it is no budget; said here, a wrong one goes by the name that the user has given it.
std::string no_budget(const std::string& text) {
  if (text == "auto" || text == "none") return {};
  try {
    const std::uint64_t bytes = ByteSize::parse(text).bytes;
    const bool plain = text.find_first_not_of("0123456789") == std::string::npos;
    if (plain && bytes > 0 && bytes < (1_MiB).bytes)
      return fmt::format("a number without a unit is bytes, and nothing runs in {0}; write {0}MiB",
                         bytes);
    if (bytes > 0) return {};
    return "nothing runs in 0 bytes; write a size such as 64MiB, auto or none";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

void add_memory(CLI::App& command, std::string& memory) {
  command
      .add_option("--memory", memory,
                  "budget of the whole process: 64MiB, 1.5GiB; auto: what the machine or container "
                  "has; none")
      ->type_name(value::kSize)
      ->check(CLI::Validator([](std::string& text) { return no_budget(text); }, ""));
}

void add_run(CLI::App& command, std::string& directory) {
  command.add_option("run", directory, "directory of a run, one of its checkpoints or its model")
      ->required()
      ->type_name(value::kRun);
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "one JSON object, for programs");
}

void add_quiet(CLI::App& command) {
  command.add_flag_callback(
      "-q,--quiet", [] { set_quiet(true); }, "print nothing but errors");
}

CLI::Validator number_from(double least, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= least &&
            (most == 0 || number <= most))
          return std::string();
        return fmt::format("\"{}\" is no number {}", text,
                           most == 0 ? fmt::format("of {} or more", least)
                                     : fmt::format("from {} to {}", least, most));
      },
      "");
}

void mind_limit(const train::Config& config) {
  const process::Available all = process::available();
  if (config.memory.budget.bytes > all.bytes + all.bytes / 100)
    complain(
        fmt::format("note: the budget of {} is more than the {} that this process may hold "
                    "({}); --memory {}MiB is safe",
                    to_string(ByteSize{config.memory.budget.bytes}), to_string(ByteSize{all.bytes}),
                    all.source, process::safe_budget(all) >> 20),
        0);
}

std::string place_of_rows(const train::Job& job) {
  const data::RowsHeld& held = job.data->held;
  const bool decides = job.config.data.in_memory == train::InMemory::automatic;
  const auto line = [](const char* what, std::uint64_t bytes, const std::string& how) {
    if (bytes == 0) return std::string();
    return fmt::format("  {:<21} {:>10}   {}\n", what, to_string(ByteSize{bytes}), how);
  };
  return line("data in memory", job.data->drawn, "rows that were generated") +
         line("data in memory", held.in_memory,
              decides ? "data.in_memory = \"auto\": of a budget a quarter at most"
                      : "data.in_memory = true") +
         line("data in its files", held.in_files, "each batch reads its own rows");
}

void check_out(const char* command, const std::string& in, const std::string& out) {
  std::error_code none;
  if (std::filesystem::equivalent(in, out, none))
    throw Error(
        fmt::format("{}: --out is \"{}\", which is the file that is read, \"{}\"; expected "
                    "another name: it would be written over",
                    command, out, in));
}

}  // namespace ebb::app
