"""Writes crates/cpu/tests/programs/as_xla.mlir: self-checking programs with the results of XLA on a CPU.

    python crates/testkit/python/as_xla.py crates/cpu/tests/programs/as_xla.mlir

The programs ask what the specification leaves open or XLA does otherwise: indices and windows outside, conversions out
of range, division by zero, shifts by the width or more, NaN in orders, negative padding. JAX must be installed. Inputs
are arguments here, so that XLA computes them with its compiled code, and constants in the file.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
from jax._src import xla_bridge
from jax._src.lib import xla_client

jax.config.update("jax_enable_x64", True)
np.seterr(over="ignore", invalid="ignore")

TYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "i1": np.bool_,
    "ui8": np.uint8, "ui32": np.uint32, "ui64": np.uint64,
}


def type_of(array, element):
    return f"tensor<{''.join(f'{size}x' for size in np.shape(array))}{element}>"


def run(text, arguments):
    backend = xla_bridge.get_backend("cpu")
    device = backend.devices()[0]
    program = backend.compile_and_load(text.encode(), xla_client.DeviceList((device,)), xla_client.CompileOptions())
    results = program.execute_sharded([jax.device_put(np.asarray(a), device) for a in arguments])
    arrays = results.disassemble_into_single_device_arrays()
    return [np.asarray(r[0] if isinstance(r, list) else r) for r in arrays]


programs = []
def add(name, ins, body, outs): programs.append((name,ins,body,outs))
def c(v,t): a=np.array(v).astype(TYPES[t]); return (type_of(a,t),a)
V={'i8':[0,1,-1,3,7,8,-128,127],'i32':[0,1,-1,7,31,32,-2147483648,2147483647],'i64':[0,1,-1,7,63,64,-2**63,2**63-1],'ui8':[0,1,2,7,8,9,128,255],'ui32':[0,1,2,31,32,33,2**31,2**32-1]}
for t,v in V.items():
    v=np.array(v,dtype=TYPES[t]); n=len(v); a=np.repeat(v,n); b=np.tile(v,n); m=n*n
    for op,w in [('divide','division_by_zero'),('remainder','remainder_by_zero'),('shift_left','shift_left_by_the_width'),('shift_right_arithmetic','arithmetic_shift_by_the_width'),('shift_right_logical','logical_shift_by_the_width')]:
        add(f"{w}_{t}",[(type_of(a,t),a),(type_of(b,t),b)],f"  %r = stablehlo.{op} %a0, %a1 : tensor<{m}x{t}>",[f"tensor<{m}x{t}>"])
FL=[0.5,-0.5,1.5,2.5,-2.5,127.5,128.0,-129.0,255.5,256.0,-1.0,32768.0,65536.0,2147483648.0,-2147483904.0,4294967296.0,9.3e18,-9.3e18,1.9e19,1e30,-1e30,np.inf,-np.inf,np.nan]
for s in ['f32','bf16']:
    for d in ['i8','ui8','i16','i32','ui32','i64','ui64','i1']:
        v=np.array(FL).astype(TYPES[s]); n=len(v)
        add(f"conversion_out_of_range_{s}_to_{d}",[(type_of(v,s),v)],f"  %r = stablehlo.convert %a0 : (tensor<{n}x{s}>) -> tensor<{n}x{d}>",[f"tensor<{n}x{d}>"])
v=np.array([0,1,-1,127,128,255,256,-128,-129,2**31-1,-2**31],dtype=np.int32); n=len(v)
for d in ['i8','ui8','i1','f16','f8E4M3FN']:
    add(f"conversion_out_of_range_i32_to_{d}",[(type_of(v,'i32'),v)],f"  %r = stablehlo.convert %a0 : (tensor<{n}xi32>) -> tensor<{n}x{d}>",[f"tensor<{n}x{d}>"])
for s,d in [('f32','f8E4M3FN'),('f32','f8E5M2'),('f32','f16'),('f64','f32'),('f32','bf16')]:
    v=np.array([448.,464.,465.,480.,57344.,61440.,65519.,65520.,1e39,1.00390625,1.01171875,np.inf,-np.inf,np.nan]).astype(TYPES[s]); n=len(v)
    add(f"conversion_rounds_{s}_to_{d}",[(type_of(v,s),v)],f"  %r = stablehlo.convert %a0 : (tensor<{n}x{s}>) -> tensor<{n}x{d}>",[f"tensor<{n}x{d}>"])
for t in ['f32','bf16']:
    v=np.array([0.,-0.,1.,-1.,np.inf,-np.inf,np.nan]).astype(TYPES[t]); n=len(v); a=np.repeat(v,n); b=np.tile(v,n); m=n*n
    for op in ['maximum','minimum']:
        add(f"{op}_of_nan_{t}",[(type_of(a,t),a),(type_of(b,t),b)],f"  %r = stablehlo.{op} %a0, %a1 : tensor<{m}x{t}>",[f"tensor<{m}x{t}>"])
        rv=np.array([[1,np.nan,3],[np.inf,-np.inf,1],[5,2,9]]).astype(TYPES[t]); iv=np.array(0).astype(TYPES[t])
        add(f"{op}_of_nan_in_a_reduction_{t}",[(type_of(rv,t),rv),(type_of(iv,t),iv)],f"  %r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{op} across dimensions = [1] : (tensor<3x3x{t}>, tensor<{t}>) -> tensor<3x{t}>",[f"tensor<3x{t}>"])
    lo=c([1,np.nan,2,-1,0],t); x=c([0,5,np.nan,3,-0.5],t); hi=c([0,9,3,np.nan,0.25],t)
    add(f"clamp_of_nan_{t}",[lo,x,hi],f"  %r = stablehlo.clamp %a0, %a1, %a2 : tensor<5x{t}>",[f"tensor<5x{t}>"])
    sv=c([3,np.nan,-0.0,0.0,-np.inf,np.inf,1,2],t)
    for d in ['LT','GT']:
        add(f"sort_{d}_with_nan_{t}",[sv,c(range(8),'i32')],f'''  %r:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%x: tensor<{t}>, %y: tensor<{t}>, %p: tensor<i32>, %q: tensor<i32>):
    %c = stablehlo.compare {d}, %x, %y, TOTALORDER : (tensor<{t}>, tensor<{t}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) : (tensor<8x{t}>, tensor<8xi32>) -> (tensor<8x{t}>, tensor<8xi32>)''',[f"tensor<8x{t}>","tensor<8xi32>"])
w=c([0.5,-0.5,1.5,2.5,-2.5,3.5,0.49999997,-0.3,8388608.5],'f32')
for op in ['round_nearest_afz','round_nearest_even','ceil','floor','sign']:
    add(f"{op}_at_halves",[w],f"  %r = stablehlo.{op} %a0 : tensor<9xf32>",["tensor<9xf32>"])
X=c(np.arange(10,20),'f32')
for it,iv in [('i32',[-2147483648,-3,-1,0,6,7,8,9,10,2147483647]),('ui8',[0,6,7,8,10,127,128,200,254,255]),('i64',[-2**63,-1,0,6,7,8,9,10,2**32+1,2**63-1])]:
    ix=np.array(iv,dtype=TYPES[it])[:,None]; n=len(ix)
    add(f"gather_outside_{it}",[X,(type_of(ix,it),ix)],f'''  %r = "stablehlo.gather"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 3>}}> : (tensor<10xf32>, tensor<{n}x1x{it}>) -> tensor<{n}x3xf32>''',[f"tensor<{n}x3xf32>"])
    for x in (iv[0],iv[-1],iv[4]):
        nm=str(x).replace('-','minus_')
        sc=(f"tensor<{it}>",np.array(x,dtype=TYPES[it]))
        add(f"dynamic_slice_outside_{it}_{nm}",[X,sc],f"  %r = stablehlo.dynamic_slice %a0, %a1, sizes = [4] : (tensor<10xf32>, tensor<{it}>) -> tensor<4xf32>",["tensor<4xf32>"])
        add(f"dynamic_update_slice_outside_{it}_{nm}",[X,c([1,2,3],'f32'),sc],f"  %r = stablehlo.dynamic_update_slice %a0, %a1, %a2 : (tensor<10xf32>, tensor<3xf32>, tensor<{it}>) -> tensor<10xf32>",["tensor<10xf32>"])
    for op in ['add','maximum','replace','divide']:
        body="stablehlo.return %y : tensor<f32>" if op=='replace' else f"%c = stablehlo.{op} %x, %y : tensor<f32>\n    stablehlo.return %c : tensor<f32>"
        u=np.arange(1,2*n+1,dtype=np.float32).reshape(n,2)
        add(f"scatter_{op}_of_windows_outside_{it}",[c(np.ones(10) if op=='divide' else np.zeros(10),'f32'),(type_of(ix,it),ix),(type_of(u,'f32'),u)],f'''  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    {body}
  }}) : (tensor<10xf32>, tensor<{n}x1x{it}>, tensor<{n}x2xf32>) -> tensor<10xf32>''',["tensor<10xf32>"])
# two dims + batching
ix=np.array([[0,0],[3,4],[-1,2],[2,-1],[4,0],[0,5],[3,3]],dtype=np.int32); u=np.arange(1,43,dtype=np.float32).reshape(7,2,3)
add("scatter_of_rectangles_outside",[c(np.zeros((5,6)),'f32'),(type_of(ix,'i32'),ix),(type_of(u,'f32'),u)],'''  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<5x6xf32>, tensor<7x2xi32>, tensor<7x2x3xf32>) -> tensor<5x6xf32>''',["tensor<5x6xf32>"])
ix=np.array([[[-1],[2]],[[1],[3]]],dtype=np.int32); u=np.arange(1,9,dtype=np.float32).reshape(2,2,2)
add("scatter_of_batches_outside",[c(np.zeros((2,4)),'f32'),(type_of(ix,'i32'),ix),(type_of(u,'f32'),u)],'''  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2x4xf32>, tensor<2x2x1xi32>, tensor<2x2x2xf32>) -> tensor<2x4xf32>''',["tensor<2x4xf32>"])
for lo,hi,inn in [(-2,1,0),(-2,-3,0),(1,-2,2),(-5,3,1),(-12,4,0)]:
    size=10+9*inn+lo+hi
    add(f"pad_by_{lo}_{hi}_{inn}".replace('-','minus_'),[X,c(-1,'f32')],f"  %r = stablehlo.pad %a0, %a1, low = [{lo}], high = [{hi}], interior = [{inn}] : (tensor<10xf32>, tensor<f32>) -> tensor<{size}xf32>",[f"tensor<{size}xf32>"])
def lit(a):
    a=np.asarray(a)
    def one(x):
        if a.dtype==bool: return 'true' if x else 'false'
        if a.dtype.kind in 'iu' and a.dtype.name not in('bfloat16',): return str(int(x))
        if a.dtype.kind=='f' or a.dtype.name.startswith(('bfloat','float')):
            f=float(x)
            if np.isfinite(f) and abs(f)<1e6 and float(np.array(round(f,4)).astype(a.dtype))==f: return repr(round(f,4)) if '.' in repr(round(f,4)) else repr(round(f,4))+'.0'
            b=np.array([x],dtype=a.dtype).tobytes()[::-1].hex().upper(); return '0x'+b
        return str(int(x))
    def rec(v): return one(v) if v.ndim==0 else '['+', '.join(rec(y) for y in v)+']'
    return rec(a)
out=["// What XLA does where the specification says otherwise, or leaves it open; expected values are those of XLA on a CPU.\n"]
for name,ins,body,outs in programs:
    args=", ".join(f"%a{i}: {t}" for i,(t,_) in enumerate(ins)); o=", ".join(outs)
    names="%r" if len(outs)==1 else ", ".join(f"%r#{i}" for i in range(len(outs)))
    res=run(f"func.func @main({args}) -> ({o}) {{\n{body}\n  return {names} : {o}\n}}",[v for _,v in ins])
    s=f"func.func @{name}() {{\n"
    for i,(t,v) in enumerate(ins): s+=f"  %a{i} = stablehlo.constant dense<{lit(v)}> : {t}\n"
    s+=body+"\n"
    for i,(t,r) in enumerate(zip(outs,res)): s+=f"  check.expect_eq_const %r{'#'+str(i) if len(outs)>1 else ''}, dense<{lit(r)}> : {t}\n"
    s+="  func.return\n}\n"
    out.append(s)
with open(sys.argv[1], "w") as file:
    file.write("\n".join(out))
print(f"{len(programs)} programs", file=sys.stderr)
