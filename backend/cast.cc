#include "backend/cast.h"

#include "backend/cast_cpu.h"

namespace ventris {

void cast(Context& context, const CastArgs& args) {
  VENTRIS_CHECK(args.source.rows == args.destination.rows && args.source.cols == args.destination.cols,
                "cast of {} x {} into {} x {}", args.source.rows, args.source.cols, args.destination.rows,
                args.destination.cols);
  cast_cpu(context, args);
}

void add(Context& context, const AddArgs& args) {
  VENTRIS_CHECK(args.x.rows == args.y.rows && args.x.cols == args.y.cols && args.x.dtype == args.y.dtype,
                "add of {} x {} {} to {} x {} {}", args.x.rows, args.x.cols, name_of(args.x.dtype), args.y.rows, args.y.cols,
                name_of(args.y.dtype));
  add_cpu(context, args);
}

void fill_zero(Context& context, Tensor tensor) { fill_zero_cpu(context, tensor); }

}  // namespace ventris
