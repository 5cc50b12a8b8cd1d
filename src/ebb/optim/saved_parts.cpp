#include "ebb/optim/saved_parts.hpp"

#include <fmt/format.h>

#include <map>

#include "ebb/base/error.hpp"
#include "ebb/ops/tracer.hpp"

namespace ebb::optim {

std::vector<NamedVariable> named(Parts parts) {
  std::vector<NamedVariable> all;
  std::map<std::string, int> names{{kRandom, 0}};
  std::map<Variable, int> known;
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (const Variable& v : parts[p]) {
      if (!known.try_emplace(v, 0).second) continue;
      std::string name = v.name();
      if (names.contains(name)) name += fmt::format("#{}", p + 1);
      if (!names.try_emplace(name, 0).second)
        throw Error(fmt::format("save: part {} has two variables {}; give them names of their own",
                                p + 1, v.name()));
      all.push_back({std::move(name), v});
    }
  return all;
}

NamedVariable random_draws() {
  const random::State now = random::state();
  const std::vector<std::int64_t> draws{static_cast<std::int64_t>(now.seed),
                                        static_cast<std::int64_t>(now.step),
                                        static_cast<std::int64_t>(now.draw)};
  return {kRandom, Variable(kRandom, Tensor::from(draws, {3}), false, Category::workspace)};
}

random::State draws_in(const Variable& draws) {
  std::int64_t found[3] = {};
  draws.read(std::as_writable_bytes(std::span(found)), 0);
  random::State state = random::state();
  state.seed = static_cast<std::uint64_t>(found[0]);
  state.step = static_cast<std::uint64_t>(found[1]);
  state.draw = static_cast<std::uint64_t>(found[2]);
  return state;
}

std::vector<std::size_t> takers(const std::string& path, std::span<const StoredTensor> found,
                                std::span<const NamedVariable> wanted) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < wanted.size(); ++i) index[wanted[i].name] = i;
  std::vector<std::size_t> takes;
  std::vector<bool> taken(wanted.size());
  std::size_t missing = wanted.size();
  for (const StoredTensor& t : found) {
    const auto at = index.find(t.name);
    takes.push_back(at == index.end() ? kNobody : at->second);
    if (at == index.end()) continue;
    const Spec& spec = wanted[at->second].variable.spec();
    if (t.spec != spec)
      refuse(path,
             fmt::format("{} is {} in it, and {} in the program; load it into the model that was "
                         "saved",
                         t.name, to_string(t.spec), to_string(spec)));
    if (!taken[at->second]) --missing;
    taken[at->second] = true;
  }
  for (std::size_t i = 0; missing && i < wanted.size(); ++i)
    if (!taken[i])
      refuse(path, fmt::format("it has no {} ({} of {} variables are missing); load the parts that "
                               "were saved",
                               wanted[i].name, missing, wanted.size()));
  return takes;
}

void refuse_in_trace(const char* what) {
  if (ops::tracer())
    throw Error(
        fmt::format("{}: a compiled function computes and does not touch files; call it "
                    "between steps",
                    what));
}

void refuse(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

}  // namespace ebb::optim
