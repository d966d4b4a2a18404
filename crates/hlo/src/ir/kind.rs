//! The ops of the language by name: adding one is a file in `ops` and a line here.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Hands the list of ops to a macro: variant, module under `ops` that defines it, and full name.
macro_rules! for_each_op {
    ($then:ident) => {
        $then! {
            Abs, abs, "stablehlo.abs";
            Add, add, "stablehlo.add";
            AfterAll, after_all, "stablehlo.after_all";
            AllGather, all_gather, "stablehlo.all_gather";
            AllReduce, all_reduce, "stablehlo.all_reduce";
            AllToAll, all_to_all, "stablehlo.all_to_all";
            And, and, "stablehlo.and";
            AsyncDone, async_done, "stablehlo.async_done";
            AsyncStart, async_start, "stablehlo.async_start";
            Atan2, atan2, "stablehlo.atan2";
            BatchNormGrad, batch_norm_grad, "stablehlo.batch_norm_grad";
            BatchNormInference, batch_norm_inference, "stablehlo.batch_norm_inference";
            BatchNormTraining, batch_norm_training, "stablehlo.batch_norm_training";
            BitcastConvert, bitcast_convert, "stablehlo.bitcast_convert";
            Broadcast, broadcast, "stablehlo.broadcast";
            BroadcastInDim, broadcast_in_dim, "stablehlo.broadcast_in_dim";
            Case, case, "stablehlo.case";
            Cbrt, cbrt, "stablehlo.cbrt";
            Ceil, ceil, "stablehlo.ceil";
            Cholesky, cholesky, "stablehlo.cholesky";
            Clamp, clamp, "stablehlo.clamp";
            CollectiveBroadcast, collective_broadcast, "stablehlo.collective_broadcast";
            CollectivePermute, collective_permute, "stablehlo.collective_permute";
            CollectiveReduce, collective_reduce, "stablehlo.collective_reduce";
            Compare, compare, "stablehlo.compare";
            Complex, complex, "stablehlo.complex";
            Composite, composite, "stablehlo.composite";
            Concatenate, concatenate, "stablehlo.concatenate";
            Constant, constant, "stablehlo.constant";
            Convert, convert, "stablehlo.convert";
            Convolution, convolution, "stablehlo.convolution";
            Cosine, cosine, "stablehlo.cosine";
            CountLeadingZeros, count_leading_zeros, "stablehlo.count_leading_zeros";
            CreateToken, create_token, "stablehlo.create_token";
            CrossReplicaSum, cross_replica_sum, "stablehlo.cross-replica-sum";
            CustomCall, custom_call, "stablehlo.custom_call";
            Divide, divide, "stablehlo.divide";
            Dot, dot, "stablehlo.dot";
            DotGeneral, dot_general, "stablehlo.dot_general";
            DynamicBroadcastInDim, dynamic_broadcast_in_dim, "stablehlo.dynamic_broadcast_in_dim";
            DynamicConv, dynamic_conv, "stablehlo.dynamic_conv";
            DynamicGather, dynamic_gather, "stablehlo.dynamic_gather";
            DynamicIota, dynamic_iota, "stablehlo.dynamic_iota";
            DynamicPad, dynamic_pad, "stablehlo.dynamic_pad";
            DynamicReshape, dynamic_reshape, "stablehlo.dynamic_reshape";
            DynamicSlice, dynamic_slice, "stablehlo.dynamic_slice";
            DynamicUpdateSlice, dynamic_update_slice, "stablehlo.dynamic_update_slice";
            Einsum, einsum, "stablehlo.einsum";
            Exponential, exponential, "stablehlo.exponential";
            ExponentialMinusOne, exponential_minus_one, "stablehlo.exponential_minus_one";
            Fft, fft, "stablehlo.fft";
            Floor, floor, "stablehlo.floor";
            Gather, gather, "stablehlo.gather";
            GetDimensionSize, get_dimension_size, "stablehlo.get_dimension_size";
            GetTupleElement, get_tuple_element, "stablehlo.get_tuple_element";
            If, if_, "stablehlo.if";
            Imag, imag, "stablehlo.imag";
            Infeed, infeed, "stablehlo.infeed";
            Iota, iota, "stablehlo.iota";
            IsFinite, is_finite, "stablehlo.is_finite";
            Log, log, "stablehlo.log";
            LogPlusOne, log_plus_one, "stablehlo.log_plus_one";
            Logistic, logistic, "stablehlo.logistic";
            Map, map, "stablehlo.map";
            Maximum, maximum, "stablehlo.maximum";
            Minimum, minimum, "stablehlo.minimum";
            Multiply, multiply, "stablehlo.multiply";
            Negate, negate, "stablehlo.negate";
            Not, not, "stablehlo.not";
            OptimizationBarrier, optimization_barrier, "stablehlo.optimization_barrier";
            Or, or, "stablehlo.or";
            Outfeed, outfeed, "stablehlo.outfeed";
            Pad, pad, "stablehlo.pad";
            PartitionId, partition_id, "stablehlo.partition_id";
            Popcnt, popcnt, "stablehlo.popcnt";
            Power, power, "stablehlo.power";
            Real, real, "stablehlo.real";
            RealDynamicSlice, real_dynamic_slice, "stablehlo.real_dynamic_slice";
            Recv, recv, "stablehlo.recv";
            Reduce, reduce, "stablehlo.reduce";
            ReducePrecision, reduce_precision, "stablehlo.reduce_precision";
            ReduceScatter, reduce_scatter, "stablehlo.reduce_scatter";
            ReduceWindow, reduce_window, "stablehlo.reduce_window";
            Remainder, remainder, "stablehlo.remainder";
            ReplicaId, replica_id, "stablehlo.replica_id";
            Reshape, reshape, "stablehlo.reshape";
            Return, return_, "stablehlo.return";
            Reverse, reverse, "stablehlo.reverse";
            Rng, rng, "stablehlo.rng";
            RngBitGenerator, rng_bit_generator, "stablehlo.rng_bit_generator";
            RoundNearestAfz, round_nearest_afz, "stablehlo.round_nearest_afz";
            RoundNearestEven, round_nearest_even, "stablehlo.round_nearest_even";
            Rsqrt, rsqrt, "stablehlo.rsqrt";
            Scatter, scatter, "stablehlo.scatter";
            Select, select, "stablehlo.select";
            SelectAndScatter, select_and_scatter, "stablehlo.select_and_scatter";
            Send, send, "stablehlo.send";
            SetDimensionSize, set_dimension_size, "stablehlo.set_dimension_size";
            ShiftLeft, shift_left, "stablehlo.shift_left";
            ShiftRightArithmetic, shift_right_arithmetic, "stablehlo.shift_right_arithmetic";
            ShiftRightLogical, shift_right_logical, "stablehlo.shift_right_logical";
            Sign, sign, "stablehlo.sign";
            Sine, sine, "stablehlo.sine";
            Slice, slice, "stablehlo.slice";
            Sort, sort, "stablehlo.sort";
            Sqrt, sqrt, "stablehlo.sqrt";
            Subtract, subtract, "stablehlo.subtract";
            Tan, tan, "stablehlo.tan";
            Tanh, tanh, "stablehlo.tanh";
            TorchIndexSelect, torch_index_select, "stablehlo.torch_index_select";
            Transpose, transpose, "stablehlo.transpose";
            TriangularSolve, triangular_solve, "stablehlo.triangular_solve";
            Tuple, tuple, "stablehlo.tuple";
            UnaryEinsum, unary_einsum, "stablehlo.unary_einsum";
            UniformDequantize, uniform_dequantize, "stablehlo.uniform_dequantize";
            UniformQuantize, uniform_quantize, "stablehlo.uniform_quantize";
            While, while_, "stablehlo.while";
            Xor, xor, "stablehlo.xor";
            CheckExpectAlmostEq, check::expect_almost_eq, "check.expect_almost_eq";
            CheckExpectAlmostEqConst, check::expect_almost_eq_const, "check.expect_almost_eq_const";
            CheckExpectClose, check::expect_close, "check.expect_close";
            CheckExpectEq, check::expect_eq, "check.expect_eq";
            CheckExpectEqConst, check::expect_eq_const, "check.expect_eq_const";
            CheckExpectSerializedEq, check::expect_serialized_eq, "check.expect_serialized_eq";
            ChloAsinAcosKernel, chlo::asin_acos_kernel, "chlo._asin_acos_kernel";
            ChloAcos, chlo::acos, "chlo.acos";
            ChloAcosh, chlo::acosh, "chlo.acosh";
            ChloAsin, chlo::asin, "chlo.asin";
            ChloAsinh, chlo::asinh, "chlo.asinh";
            ChloAtan, chlo::atan, "chlo.atan";
            ChloAtanh, chlo::atanh, "chlo.atanh";
            ChloBesselI1e, chlo::bessel_i1e, "chlo.bessel_i1e";
            ChloBroadcastAdd, chlo::broadcast_add, "chlo.broadcast_add";
            ChloBroadcastAnd, chlo::broadcast_and, "chlo.broadcast_and";
            ChloBroadcastAtan2, chlo::broadcast_atan2, "chlo.broadcast_atan2";
            ChloBroadcastCompare, chlo::broadcast_compare, "chlo.broadcast_compare";
            ChloBroadcastComplex, chlo::broadcast_complex, "chlo.broadcast_complex";
            ChloBroadcastDivide, chlo::broadcast_divide, "chlo.broadcast_divide";
            ChloBroadcastMaximum, chlo::broadcast_maximum, "chlo.broadcast_maximum";
            ChloBroadcastMinimum, chlo::broadcast_minimum, "chlo.broadcast_minimum";
            ChloBroadcastMultiply, chlo::broadcast_multiply, "chlo.broadcast_multiply";
            ChloBroadcastNextAfter, chlo::broadcast_next_after, "chlo.broadcast_next_after";
            ChloBroadcastOr, chlo::broadcast_or, "chlo.broadcast_or";
            ChloBroadcastPolygamma, chlo::broadcast_polygamma, "chlo.broadcast_polygamma";
            ChloBroadcastPower, chlo::broadcast_power, "chlo.broadcast_power";
            ChloBroadcastRemainder, chlo::broadcast_remainder, "chlo.broadcast_remainder";
            ChloBroadcastSelect, chlo::broadcast_select, "chlo.broadcast_select";
            ChloBroadcastShiftLeft, chlo::broadcast_shift_left, "chlo.broadcast_shift_left";
            ChloBroadcastShiftRightArithmetic, chlo::broadcast_shift_right_arithmetic, "chlo.broadcast_shift_right_arithmetic";
            ChloBroadcastShiftRightLogical, chlo::broadcast_shift_right_logical, "chlo.broadcast_shift_right_logical";
            ChloBroadcastSubtract, chlo::broadcast_subtract, "chlo.broadcast_subtract";
            ChloBroadcastXor, chlo::broadcast_xor, "chlo.broadcast_xor";
            ChloBroadcastZeta, chlo::broadcast_zeta, "chlo.broadcast_zeta";
            ChloConj, chlo::conj, "chlo.conj";
            ChloConstant, chlo::constant, "chlo.constant";
            ChloConstantLike, chlo::constant_like, "chlo.constant_like";
            ChloCosh, chlo::cosh, "chlo.cosh";
            ChloDigamma, chlo::digamma, "chlo.digamma";
            ChloErf, chlo::erf, "chlo.erf";
            ChloErfInv, chlo::erf_inv, "chlo.erf_inv";
            ChloErfc, chlo::erfc, "chlo.erfc";
            ChloIsInf, chlo::is_inf, "chlo.is_inf";
            ChloIsNegInf, chlo::is_neg_inf, "chlo.is_neg_inf";
            ChloIsPosInf, chlo::is_pos_inf, "chlo.is_pos_inf";
            ChloLgamma, chlo::lgamma, "chlo.lgamma";
            ChloMulhi, chlo::mulhi, "chlo.mulhi";
            ChloNextAfter, chlo::next_after, "chlo.next_after";
            ChloPolygamma, chlo::polygamma, "chlo.polygamma";
            ChloRaggedDot, chlo::ragged_dot, "chlo.ragged_dot";
            ChloScan, chlo::scan, "chlo.scan";
            ChloSinh, chlo::sinh, "chlo.sinh";
            ChloSquare, chlo::square, "chlo.square";
            ChloTan, chlo::tan, "chlo.tan";
            ChloTopK, chlo::top_k, "chlo.top_k";
            ChloZeta, chlo::zeta, "chlo.zeta";
            FuncCall, func::call, "func.call";
            FuncReturn, func::return_, "func.return";
            InterpreterPrint, interpreter::print, "interpreter.print";
            InterpreterProbe, interpreter::probe, "interpreter.probe";
            InterpreterRunParallel, interpreter::run_parallel, "interpreter.run_parallel";
            SdyAllGather, sdy::all_gather, "sdy.all_gather";
            SdyAllReduce, sdy::all_reduce, "sdy.all_reduce";
            SdyAllSlice, sdy::all_slice, "sdy.all_slice";
            SdyAllToAll, sdy::all_to_all, "sdy.all_to_all";
            SdyCollectivePermute, sdy::collective_permute, "sdy.collective_permute";
            SdyConstant, sdy::constant, "sdy.constant";
            SdyDataFlowEdge, sdy::data_flow_edge, "sdy.data_flow_edge";
            SdyFuncDataFlowEdge, sdy::func_data_flow_edge, "sdy.func_data_flow_edge";
            SdyManualComputation, sdy::manual_computation, "sdy.manual_computation";
            SdyNamedComputation, sdy::named_computation, "sdy.named_computation";
            SdyPropagationBarrier, sdy::propagation_barrier, "sdy.propagation_barrier";
            SdyReduceScatter, sdy::reduce_scatter, "sdy.reduce_scatter";
            SdyReplicatedToUnreduced, sdy::replicated_to_unreduced, "sdy.replicated_to_unreduced";
            SdyReshard, sdy::reshard, "sdy.reshard";
            SdyReturn, sdy::return_, "sdy.return";
            SdyShardedToUnreduced, sdy::sharded_to_unreduced, "sdy.sharded_to_unreduced";
            SdyShardingConstraint, sdy::sharding_constraint, "sdy.sharding_constraint";
            SdyShardingGroup, sdy::sharding_group, "sdy.sharding_group";
        }
    };
}
pub(crate) use for_each_op;

macro_rules! kinds {
    ($($variant:ident, $module:path, $name:literal;)*) => {
        /// An op of the language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum OpKind { $(#[doc = concat!("`", $name, "`.")] $variant,)* }

        impl OpKind {
            /// Every op.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$variant,)*];

            /// Its full name.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$variant => $name,)* }
            }
        }
    };
}
for_each_op!(kinds);

impl OpKind {
    /// The op a full name names.
    pub fn from_name(name: &str) -> Option<OpKind> {
        static BY_NAME: LazyLock<HashMap<&'static str, OpKind>> =
            LazyLock::new(|| OpKind::ALL.iter().map(|&kind| (kind.name(), kind)).collect());
        BY_NAME.get(name).copied()
    }
}
