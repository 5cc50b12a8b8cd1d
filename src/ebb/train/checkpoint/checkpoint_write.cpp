#include "ebb/train/checkpoint/checkpoint_write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_calls.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/io/array/variable_file.hpp"
#include "ebb/optim/saved_parts.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/staged_directory.hpp"
#include "ebb/train/checkpoint/tensor_sums.hpp"

namespace ebb::train {
namespace {

File new_file(const std::string& path) {
  return File::open(path, {.access = Access::write, .create = true, .exclusive = true});
}

ManifestFile write_tensors(const std::string& folder, const char* name,
                           std::span<const NamedVariable> all, std::span<std::byte> chunk) {
  Safetensors layout = layout_of(all);
  layout.metadata = {{"written_by", "ebb"}};
  const std::string front = safetensors_front(layout);
  ManifestFile out{name, front.size()};
  for (const NamedVariable& n : all) out.bytes += n.variable.spec().bytes();

  File file = new_file(folder + "/" + name);
  file.reserve(out.bytes);  // a full disk is met before anything is written
  file.write(front);
  TensorSums sums(front, all.size());
  write_variables(file, all, chunk, [&](std::size_t i, auto bytes) { sums.add(i, bytes); });
  sums.end();
  file.sync();
  file.close();
  out.checksum = sums.file();
  for (std::size_t i = 0; i < all.size(); ++i)
    out.tensors.push_back({all[i].name, all[i].variable.spec(), sums.tensors()[i]});
  return out;
}

// Each variable goes where the part that lists it first goes.
std::vector<NamedVariable> of_file(const std::vector<NamedVariable>& all,
                                   const CheckpointParts& parts, bool model) {
  std::vector<NamedVariable> chosen;
  for (const NamedVariable& n : all)
    for (std::size_t p = 0; p < parts.lists.size(); ++p) {
      const auto& list = parts.lists[p];
      if (std::find(list.begin(), list.end(), n.variable) == list.end()) continue;
      if (parts.model[p] == model) chosen.push_back(n);
      break;
    }
  return chosen;
}

void refuse_what_is_no_checkpoint(const std::string& directory) {
  const PathKind kind = kind_of(directory);
  if (kind == PathKind::nothing) return;
  if (kind == PathKind::folder &&
      (names_in(directory).empty() || kind_of(directory + "/" + kManifestName) == PathKind::file))
    return;
  throw FileError(
      fmt::format("cannot save to \"{}\": it is there and holds no checkpoint; remove it or choose "
                  "another name",
                  directory));
}

void check(const CheckpointInfo& info) {
  if (info.step < 0 || info.epoch < 0)
    throw Error(
        fmt::format("save: step {} and epoch {} are counts from 0 on", info.step, info.epoch));
  for (const auto& number : {info.value, info.best})
    if (number && !std::isfinite(*number))
      throw Error(
          fmt::format("save: the {} of a checkpoint is {}; leave it out where there is none",
                      info.metric.empty() ? "value" : info.metric, *number));
}

}  // namespace

void write_checkpoint(const std::string& directory, CheckpointInfo info, std::int64_t written,
                      const CheckpointParts& parts) {
  optim::refuse_in_trace("save");
  check(info);
  if (info.position.empty()) info.position = parts.position;
  refuse_what_is_no_checkpoint(directory);
  const std::vector<NamedVariable> all = optim::named(parts.lists);
  const std::vector<NamedVariable> model = of_file(all, parts, true);
  std::vector<NamedVariable> state = of_file(all, parts, false);

  const memory::Borrowing between_steps;
  state.push_back(optim::random_draws());
  const random::State draws = optim::draws_in(state.back().variable);
  Manifest manifest{std::move(info), written, draws.seed, draws.step, draws.draw, {}};
  StagedDirectory staged(directory);
  {
    const memory::Buffer buffer = chunk_for(all, "save");
    const std::span<std::byte> chunk(buffer.data(), buffer.size());
    manifest.files.push_back(write_tensors(staged.path(), kModelName, model, chunk));
    manifest.files.push_back(write_tensors(staged.path(), kStateName, state, chunk));
  }
  const std::string text = to_json(manifest);
  if (text.size() > Manifest::kMaxBytes)
    throw Error(
        fmt::format("save: {} variables and the extra text make a manifest of {} bytes, and at "
                    "most {} are read; keep large text in files of its own",
                    all.size(), text.size(), Manifest::kMaxBytes));
  File file = new_file(staged.path() + "/" + kManifestName);
  file.write(text);
  file.sync();
  file.close();
  staged.commit();
}

void save_parts(const std::string& directory, const CheckpointInfo& info,
                const CheckpointParts& parts) {
  std::string place = directory;
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  const std::string parent = file_calls::folder_of(place),
                    name = place.substr(place.rfind('/') + 1);
  make_directories(parent);
  remove_leftovers(parent, [&](std::string_view of) { return of == name; });
  write_checkpoint(place, info, 0, parts);
}

}  // namespace ebb::train
