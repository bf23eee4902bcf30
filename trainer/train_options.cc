#include "trainer/train_options.h"

#include "backend/error.h"

namespace ventris {
namespace {

void set_shape(TransformerConfig& model, int layers, int d_model, int d_ff, int heads, float dropout) {
  model.encoder_layers = layers;
  model.decoder_layers = layers;
  model.d_model = d_model;
  model.d_ff = d_ff;
  model.heads = heads;
  model.dropout = dropout;
}

}  // namespace

const char* name_of(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "reproducible";
}

TrainOptions preset_options(const std::string& name) {
  TrainOptions options;
  options.preset = name;
  if (name == "tiny") {
    set_shape(options.model, 4, 128, 256, 4, 0.3F);
    options.batch_source_tokens = options.batch_target_tokens = 4096;
    options.warmup_steps = 2000;
    options.max_steps = 20000;
    options.learning_rate_scale = 2.5;  // peak 0.005, as published for Multi30k
  } else if (name == "small") {
    set_shape(options.model, 6, 512, 1024, 4, 0.3F);
    options.batch_source_tokens = options.batch_target_tokens = 4096;
    options.max_steps = 50000;
  } else if (name == "base") {
    set_shape(options.model, 6, 512, 2048, 8, 0.1F);
  } else if (name == "big") {
    set_shape(options.model, 6, 1024, 4096, 16, 0.3F);
    options.max_steps = 300000;
    options.keep_checkpoints = 20;
  } else {
    fail(ExitCode::kBadConfiguration, "there is no preset \"{}\": the presets are tiny, small, base and big",
         name);
  }
  return options;
}

}  // namespace ventris
